// Runs once for all pages of a browser, as a SharedWorker.
import { Streams } from "./streams.js";

const streams = new Streams();

self.onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data.lock) navigator.locks.request(data.lock, () => streams.leave(port)); // the page is gone, however it ended
    else if (data.leave) streams.leave(port);
    else streams.join(port, data.view, data.seen, data.as, (name, text, seen) => port.postMessage({ name, text, seen }));
  };
};
