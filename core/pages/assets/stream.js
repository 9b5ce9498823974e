// One stream of a page. A hidden tab has none; when it is shown again it gets the state as it is then.
export class Stream {
  constructor(url, handlers, say) {
    this.url = url;
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
    this.source.addEventListener("login", () => { // typed text stays on the page
      this.end();
      const here = encodeURIComponent(location.pathname + location.search);
      this.say(`Your session has ended. ${this.asOf()} `, { text: "Log in again", to: `/login?next=${here}` });
    });
    this.source.onerror = () => {
      this.close();
      this.say(`Reconnecting. ${this.asOf()}`);
      this.retry = setTimeout(() => this.open(), this.wait + Math.random() * this.wait);
      this.wait = Math.min(this.wait * 2, 30000);
    };
  }

  asOf() { return `This page is as of ${this.since.toISOString().slice(11, 19)} UTC.`; }

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

// fill puts a line into an element, with a link behind it if there is one.
export function fill(element, text, link) {
  element.textContent = text;
  if (!link) return;
  const a = document.createElement("a");
  a.textContent = link.text;
  a.href = link.to;
  element.append(a);
}
