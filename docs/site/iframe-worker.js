// Browsers start no worker from a file, so that the search would answer only behind a server. For pages that are opened as
// files, this runs the search's script in a hidden frame, which speaks as a worker does.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.body.appendChild(document.createElement("iframe"));
      frame.hidden = true;
      this.inside = frame.contentWindow;
      window.addEventListener("message", (event) => {
        if (event.source !== this.inside) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      });
      this.ready = new Promise((resolve) => {
        const script = this.inside.document.createElement("script");
        this.inside.IFrameWorker = this.constructor;
        this.inside.postMessage = (data) => window.dispatchEvent(new MessageEvent("message", { data, source: this.inside }));
        this.inside.importScripts = (...urls) => urls.reduce((before, next) => before.then(() => this.load(next)), Promise.resolve());
        script.onload = resolve;
        script.src = url;
        this.inside.document.body.append(script);
      });
    }
    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.inside.document.createElement("script");
        Object.assign(script, { src: url, onload: resolve, onerror: reject });
        this.inside.document.body.append(script);
      });
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  };
  window.Worker = window.IFrameWorker;
}
