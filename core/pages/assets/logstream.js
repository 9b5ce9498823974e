// The output of one host while it runs: a stream of its own, of a page that can be seen.
import { another, asOf, loginAgain } from "./stream.js";

export class LogStream {
  constructor(url, handlers, say) {
    this.url = `${url}?as=${document.documentElement.dataset.as}`;
    this.handlers = handlers;
    this.say = say;
    this.wait = 1000;
    this.since = new Date();
    document.addEventListener("visibilitychange", () => {
      if (this.over) return;
      this.close();
      if (!document.hidden) this.open();
    });
    this.open();
  }

  open() {
    this.source = new EventSource(this.url);
    for (const [name, handle] of Object.entries(this.handlers)) {
      this.source.addEventListener(name, (e) => {
        this.wait = 1000;
        this.since = new Date();
        if (name === "done") this.end();
        handle(e.data);
      });
    }
    this.source.addEventListener("login", () => {
      this.end();
      this.say(`Your session has ended. ${asOf(this.since)} `, loginAgain());
    });
    this.source.addEventListener("other", () => {
      this.end();
      another(this.say);
    });
    this.source.onerror = () => {
      this.close();
      this.say(`Reconnecting. ${asOf(this.since)}`);
      this.retry = setTimeout(() => this.open(), this.wait + Math.random() * this.wait);
      this.wait = Math.min(this.wait * 2, 30000);
    };
  }

  end() {
    this.over = true;
    this.close();
  }

  close() {
    clearTimeout(this.retry);
    if (this.source) this.source.close();
    this.source = undefined;
  }
}
