"""The answers of three keys: `w`, why is it so; `D`, what has changed; `s`, the source of a decision."""
