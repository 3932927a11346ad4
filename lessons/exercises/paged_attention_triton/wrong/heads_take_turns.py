"""Query head h has key head h modulo the number of key heads."""

HINT = "Neighbouring query heads share a key head: with groups of two, heads 0 and 1."
CHANGES = {
    "                head // GROUP,": "                head % (tl.num_programs(1) // GROUP),",
}
