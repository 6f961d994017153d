// A driver for a headless Chromium over the DevTools pipe (file descriptors 3 and 4, JSON texts that end with NUL). It needs no package.
import { spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The time that one command may take, in milliseconds. */
const commandMilliseconds = 30_000;

/** A running browser. `open` starts one, and `close` ends it with all its processes. */
export class Chromium extends EventEmitter {
  #process;
  #folder;
  #commands = new Map();
  #lastID = 0;
  #received = [];
  #pages = new Map();

  static async open({ binary = process.env.CHROMIUM ?? "/usr/bin/chromium", flags = [] } = {}) {
    const browser = new Chromium();
    browser.#folder = await mkdtemp(join(tmpdir(), "chromium-"));
    const child = spawn(binary, [
      "--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-dev-shm-usage", `--user-data-dir=${browser.#folder}`, "--disable-gpu",
      "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
      ...flags, "about:blank",
    ], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"], detached: true });
    browser.#process = child;
    child.on("exit", () => browser.#end(new Error("the browser has ended")));
    child.on("error", (error) => browser.#end(error));
    child.stdio[3].on("error", (error) => browser.#end(error));
    child.stdio[4].on("data", (bytes) => browser.#receive(bytes));
    await browser.send("Target.setDiscoverTargets", { discover: true });
    return browser;
  }

  /** Sends a command to the browser, or to the target of a session, and returns its result. */
  send(method, params = {}, sessionId = undefined) {
    const id = ++this.#lastID;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#commands.delete(id);
        reject(new Error(`${method}: no answer within ${commandMilliseconds / 1000} s`));
      }, commandMilliseconds);
      this.#commands.set(id, { method, resolve, reject, timer });
      this.#process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  /** Opens a page in a browser context of its own, unless `context` names one. */
  async page(url = "about:blank", { context } = {}) {
    const browserContextId = context ?? (await this.send("Target.createBrowserContext")).browserContextId;
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank", browserContextId });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId, targetId, browserContextId);
    this.#pages.set(sessionId, page);
    for (const domain of ["Page", "Runtime", "Network", "Log", "Audits"]) await page.send(`${domain}.enable`);
    if (url !== "about:blank") await page.goto(url);
    return page;
  }

  /** Ends the browser and deletes its folder. */
  async close() {
    const child = this.#process;
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, "exit");
      const timer = setTimeout(() => process.kill(-child.pid, "SIGKILL"), 5_000);
      this.send("Browser.close").catch((error) => this.emit("closing", error));
      await ended;
      clearTimeout(timer);
    }
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }

  #receive(bytes) {
    this.#received.push(bytes);
    if (!bytes.includes(0)) return;
    const all = Buffer.concat(this.#received);
    const end = all.lastIndexOf(0);
    this.#received = [all.subarray(end + 1)];
    for (const text of all.toString("utf8", 0, end).split("\0")) {
      const message = JSON.parse(text);
      if (message.id === undefined) {
        (this.#pages.get(message.sessionId) ?? this).emit(message.method, message.params);
        continue;
      }
      const command = this.#commands.get(message.id);
      if (!command) continue;
      this.#commands.delete(message.id);
      clearTimeout(command.timer);
      if (message.error) command.reject(new Error(`${command.method}: ${message.error.message}`));
      else command.resolve(message.result);
    }
  }

  #end(error) {
    for (const command of this.#commands.values()) {
      clearTimeout(command.timer);
      command.reject(error);
    }
    this.#commands.clear();
  }
}

/** One page. Events of the DevTools protocol arrive as events of this object, by their method. */
export class Page extends EventEmitter {
  constructor(browser, sessionId, targetId, context) {
    super();
    Object.assign(this, { browser, sessionId, targetId, context });
  }

  send(method, params = {}) { return this.browser.send(method, params, this.sessionId); }

  /** Loads a URL and waits for the event `load`. */
  async goto(url) {
    const loaded = once(this, "Page.loadEventFired", { signal: AbortSignal.timeout(commandMilliseconds) });
    loaded.catch(() => undefined); // A failed navigation throws below; then nobody awaits the event.
    const { errorText } = await this.send("Page.navigate", { url });
    if (errorText) throw new Error(`${url}: ${errorText}`);
    await loaded;
  }

  /** Evaluates an expression, or calls a function with JSON arguments, and returns the JSON value of the result. */
  async evaluate(source, ...values) {
    const expression = typeof source === "function" ? `(${source})(...${JSON.stringify(values)})` : source;
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /** Polls a condition in the page until it is truthy, and returns its value. */
  async until(condition, { values = [], seconds = 10, what = String(condition) } = {}) {
    const deadline = Date.now() + seconds * 1000;
    for (;;) {
      const value = await this.evaluate(condition, ...values);
      if (value) return value;
      if (Date.now() > deadline) throw new Error(`not within ${seconds} s: ${what}`);
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }

  /** Presses and releases a key, with real key events. */
  async press(key, { shift = false } = {}) {
    const codes = { Tab: 9, Enter: 13, Escape: 27, " ": 32, ArrowLeft: 37, ArrowRight: 39, ArrowDown: 40, ArrowUp: 38, Home: 36, End: 35 };
    const texts = { Enter: "\r", " ": " " };
    const event = {
      key, code: key === " " ? "Space" : key, windowsVirtualKeyCode: codes[key] ?? 0, modifiers: shift ? 8 : 0, text: texts[key],
    };
    await this.send("Input.dispatchKeyEvent", { ...event, type: event.text ? "keyDown" : "rawKeyDown" });
    await this.send("Input.dispatchKeyEvent", { ...event, type: "keyUp", text: undefined });
  }

  /** Types a text into the element that has the focus. */
  type(text) { return this.send("Input.insertText", { text }); }

  /** Scrolls to an element and clicks its center with the mouse. */
  async click(selector) {
    const point = await this.evaluate((wanted) => {
      const element = document.querySelector(wanted);
      if (!element) throw new Error(`no element ${wanted}`);
      element.scrollIntoView({ block: "center" });
      const box = element.getBoundingClientRect();
      return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
    }, selector);
    for (const type of ["mousePressed", "mouseReleased"]) {
      await this.send("Input.dispatchMouseEvent", { type, ...point, button: "left", clickCount: 1 });
    }
  }

  /** The page as PNG. */
  async screenshot() { return Buffer.from((await this.send("Page.captureScreenshot", { format: "png" })).data, "base64"); }

  close() { return this.browser.send("Target.closeTarget", { targetId: this.targetId }); }
}
