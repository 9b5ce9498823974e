// What pages do beside being read. Without it each page can be read, and loaded again.
import { localTimes } from "./times.js";
import { startRun } from "./run.js";
import { startLog } from "./log.js";

localTimes(document);
if (document.getElementById("run")) startRun();
if (document.getElementById("lines")) startLog();
