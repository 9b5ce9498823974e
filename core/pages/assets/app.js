// What pages do beside being read. Without it each page can be read, and loaded again.
import { localTimes, timesButton } from "./times.js";
import { keys, keysButton } from "./keys.js";
import { Live } from "./live.js";
import { startRun } from "./run.js";
import { startLog } from "./log.js";

localTimes(document);
timesButton(document.querySelector("footer"));
const host = document.getElementById("host");
if (host) keys({ "/": ["find a host", () => host.focus()] });
const now = document.getElementById("now");
if (now) new Live(document.getElementById("live"), now, {});
if (document.getElementById("run")) startRun();
else if (document.getElementById("lines")) startLog();
else keysButton(document.querySelector("footer"), "? shows them");
