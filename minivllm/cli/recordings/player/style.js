import { COLOURS } from "./labels.js";
import { STYLE_SHEET } from "./player.css";

// The style sheet is part of the script, so that one file is the whole player.

export function addStyle() {
  if (document.getElementById("minivllm-player-style")) return;
  const colours = Object.entries(COLOURS)
    .map(([name, [dark, light]]) => `--${name}:light-dark(${light},${dark})`).join(";");
  const sheet = document.createElement("style");
  sheet.id = "minivllm-player-style";
  sheet.textContent = `.p-player,.p-zone,.p-error{${colours}}${STYLE_SHEET}`;
  document.head.append(sheet);
}
