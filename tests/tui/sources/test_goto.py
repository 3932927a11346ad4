"""Go to: every name that stands on the screen is known, steps may be written as the screen writes them."""

from support.tui.driven_app import app_for, drawn, drive, told
from textual.pilot import Pilot


async def go_to(pilot: Pilot, words: str) -> None:
    await pilot.press("g")
    await pilot.pause()
    pilot.app.screen.query_one("Input").value = words
    await pilot.press("enter")
    await pilot.pause()


def test_a_name_on_the_screen_a_step_as_it_is_drawn_and_a_step_that_is_not_there(samples) -> None:
    app = app_for(samples.run(8))

    async def script(pilot: Pilot) -> None:
        transport = app.context.transport
        for words in ("3", "step 3", "Step 3", "0,003"):
            transport.to_start()
            await go_to(pilot, words)
            assert transport.position == transport.recording.step_end(3), words
        assert not told(app)
        # A sample has no arrival of its own: it is shown where the picture stands.
        here = transport.position
        assert "r0.1" in app.model.fold.running
        await go_to(pilot, "r0.1")
        assert (app.context.selection.seq_id, transport.position) == ("r0.1", here)
        assert app.current_mode == "requests" and not told(app)
        await go_to(pilot, "9,999")
        assert (
            told(app)[-1] == "There is no step 9,999 in this recording so far (they are 0 to 8): this is the nearest."
        )
        assert transport.position == len(samples.events)
        await go_to(pilot, "nobody")
        assert told(app)[-1].endswith("called nobody in this recording so far: write 412, ada or b9.")

    drive(app, script)


def test_the_short_name_of_a_servers_request_is_known_and_its_detail_has_the_whole(stage, ask) -> None:
    whole = "chatcmpl-d92da972a4f640628a0bdcda8ec01234-0a1b2c3d"
    app = app_for(stage([ask(whole, "a question", "an answer of some words"), ask("ada", "b", "c d e")]).run(3))

    async def script(pilot: Pilot) -> None:
        for id in ("slots", "eventlog"):
            rows = [row for row in drawn(app, id) if "d92da9" in row]
            assert rows and not any("chatcmpl" in row for row in rows)
        assert any("d92da9 enters slot" in row for row in drawn(app, "eventlog")), "the verb is in sight"
        await go_to(pilot, "d92da9")
        assert (app.context.selection.seq_id, app.current_mode) == (f"{whole}.0", "requests")
        assert whole in " ".join(drawn(app, "request-detail")) and not told(app)

    drive(app, script, (200, 50))
