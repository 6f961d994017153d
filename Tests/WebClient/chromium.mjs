// Drives headless Chromium over the DevTools pipe, without packages.
import { spawn } from "node:child_process";
import { createReadStream, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";

/** A page. Its calls are those of the DevTools protocol. */
class Page {
  #browser;
  #sessionID;
  #pausing;
  targetID;
  /** The text of the errors and of `console.error` in the page. */
  errors = [];
  /** Whether the debugger has paused the scripts of the page. */
  isPaused = false;

  constructor(browser, targetID, sessionID) {
    this.#browser = browser;
    this.targetID = targetID;
    this.#sessionID = sessionID;
  }

  send(method, parameters = {}) {
    return this.#browser.send(method, parameters, this.#sessionID);
  }

  /** The value of an expression in the page; a promise is awaited. */
  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  /** Pauses the scripts of the page with the debugger, until `resume`. */
  async pause() {
    await this.send("Debugger.enable");
    // The command is answered when the page is resumed.
    this.#pausing = this.send("Runtime.evaluate", { expression: "debugger" });
    const end = Date.now() + 5_000;
    while (!this.isPaused) {
      if (Date.now() > end) throw new Error("the debugger did not pause the page");
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** Resumes the scripts of the page. */
  async resume() {
    await this.send("Debugger.resume");
    await this.#pausing;
    await this.send("Debugger.disable");
  }

  async close() {
    await this.#browser.send("Target.closeTarget", { targetId: this.targetID });
  }
}

export class Chromium {
  #process;
  #folder = mkdtempSync(join(tmpdir(), "rollcall-chromium-"));
  #calls = new Map();
  #callsCount = 0;
  #pages = new Map();
  #ended;
  /** What the browser writes to its standard error, the end of it. */
  log = "";

  static async start(binary = process.env.CHROMIUM ?? "/usr/bin/chromium") {
    const browser = new Chromium();
    browser.#process = spawn(binary, [
      "--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
      // Pages of an origin that is not this machine's, for example http://staging.test:8000.
      "--host-resolver-rules=MAP *.test 127.0.0.1", `--user-data-dir=${browser.#folder}`, "about:blank",
    ], { stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"], detached: true });
    browser.#ended = new Promise((resolve) => browser.#process.once("exit", resolve));
    browser.#process.stderr.on("data", (chunk) => (browser.log = (browser.log + chunk).slice(-10_000)));
    let rest = "";
    browser.#process.stdio[4].setEncoding("utf8").on("data", (chunk) => {
      const messages = (rest + chunk).split("\0");
      rest = messages.pop();
      for (const message of messages) browser.#receive(JSON.parse(message));
    });
    await browser.send("Browser.getVersion");
    return browser;
  }

  send(method, params = {}, sessionId = undefined) {
    const id = ++this.#callsCount;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${method}: no answer to ${params.expression ?? ""}. ${this.log}`)), 30_000);
      this.#calls.set(id, { method, resolve, reject, timer });
      this.#process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  #receive(message) {
    if (message.id !== undefined) {
      const call = this.#calls.get(message.id);
      this.#calls.delete(message.id);
      clearTimeout(call?.timer);
      if (message.error) call?.reject(new Error(`${call.method}: ${message.error.message}`));
      else call?.resolve(message.result);
      return;
    }
    const page = this.#pages.get(message.sessionId);
    if (message.method === "Runtime.exceptionThrown") {
      page?.errors.push(message.params.exceptionDetails.exception?.description ?? message.params.exceptionDetails.text);
    }
    if (page && message.method === "Debugger.paused") page.isPaused = true;
    if (page && message.method === "Debugger.resumed") page.isPaused = false;
    if (message.method === "Runtime.consoleAPICalled" && message.params.type === "error") {
      page?.errors.push(message.params.args.map(({ value, description }) => value ?? description).join(" "));
    }
  }

  /** Opens a page in a tab of its own. Pages share storage, locks and channels unless `isPrivate`. */
  async open(url, { isPrivate = false } = {}) {
    const browserContextId = isPrivate ? (await this.send("Target.createBrowserContext")).browserContextId : undefined;
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank", browserContextId });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, targetId, sessionId);
    this.#pages.set(sessionId, page);
    for (const domain of ["Runtime", "Page", "Network"]) await page.send(`${domain}.enable`);
    await page.send("Page.navigate", { url });
    const end = Date.now() + 20_000;
    while ((await page.evaluate("document.readyState + location.href")) !== `complete${url}`) {
      if (Date.now() > end) throw new Error(`${url} was not loaded: ${page.errors}`);
    }
    return page;
  }

  async stop() {
    // Chromium's processes form a group of their own.
    try {
      process.kill(-this.#process.pid, "SIGKILL");
    } catch (error) {
      if (error.code !== "ESRCH") throw error;
    }
    await this.#ended;
    for (const { timer } of this.#calls.values()) clearTimeout(timer);
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8" };

/** Serves a folder on localhost, and `/blank.html`. */
export async function serve(folder) {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
    if (path === "/blank.html") return response.setHeader("Content-Type", TYPES[".html"]).end("<!doctype html><title>test</title>");
    const file = createReadStream(join(folder, path));
    file.once("error", () => response.writeHead(404).end());
    file.once("open", () => {
      response.setHeader("Content-Type", TYPES[extname(path)] ?? "application/octet-stream");
      file.pipe(response);
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://localhost:${server.address().port}`,
    close: () => new Promise((resolve) => {
      server.closeAllConnections();
      server.close(resolve);
    }),
  };
}
