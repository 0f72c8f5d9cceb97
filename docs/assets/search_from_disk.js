// A page from a folder may not start a worker. The search of the theme then runs in a hidden frame: a class
// with the part of a Worker's interface that the theme uses, messages in both directions.
class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.inside = frame.contentWindow;
    this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    this.loaded = new Promise((done) => {
      const script = this.inside.document.createElement("script");
      Object.assign(script, { src: url, onload: done });
      this.inside.document.body.append(script);
    });
  }
  postMessage(data) {
    this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
  }
  terminate() {}
}
if (location.protocol === "file:") window.Worker = window.IFrameWorker = FrameWorker;
