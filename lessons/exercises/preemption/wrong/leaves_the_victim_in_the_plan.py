"""What stands in the plan stays in the plan."""

HINT = "A victim of this very step is in the plan with tokens. Into whose blocks would the model write them?"
CHANGES = {
    "            plan.withdraw(victim)\n": "",
}
