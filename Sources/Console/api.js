// Calls of the node that serves this page. The token is a variable of this module, and is kept nowhere else.

/** The time that a call may take, in milliseconds. */
const callMilliseconds = 15_000;

/** The largest answer that the page reads, in characters. */
const answerMax = 8 * 1024 * 1024;

let token = null;
let expiryTimer = null;
let onLoggedOut = () => undefined;

/** An error that a node answered, or the lack of an answer (status 0). */
export class CallError extends Error {
  constructor({ status = 0, code = null, detail, mayHaveActed = false }) {
    super(detail);
    Object.assign(this, { status, code, detail, mayHaveActed });
  }
}

/** The node is of a version that does not have the operation. */
export class UnknownOperation extends CallError {
  constructor(operation) {
    super({ status: 404, code: 404, detail: `This node does not know ${operation}. A newer version of Rollcall has it.` });
  }
}

/** Sets the function that the end of the token calls, with the reason. */
export function whenLoggedOut(listener) { onLoggedOut = listener; }

/** The claims of a token, for display only: the node checks the token. Throws if the text is not a JWT. */
export function claims(text) {
  const parts = text.split(".");
  if (parts.length !== 3) throw new Error("A token has three parts with dots between them.");
  try {
    const binary = atob(parts[1].replace(/-/g, "+").replace(/_/g, "/"));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(binary, (character) => character.charCodeAt(0))));
  } catch (error) {
    throw new Error("The middle part of the token is not JSON in base64url.", { cause: error });
  }
}

/** Keeps a token until it expires, until a node refuses it, or until `forgetToken`. */
export function keepToken(text) {
  forgetToken();
  token = text;
  const milliseconds = claims(text).exp * 1000 - Date.now();
  // A timer of more than 2^31 ms would fire at once; a token of that age is refused by the node instead.
  if (milliseconds < 2 ** 31) {
    expiryTimer = setTimeout(() => logOut("The token has expired. Sign in again to continue on this page."), Math.max(0, milliseconds));
  }
}

export function forgetToken() {
  token = null;
  clearTimeout(expiryTimer);
}

function logOut(reason) {
  if (token === null) return;
  forgetToken();
  onLoggedOut(reason);
}

/** Whether an operation only reads. The lack of an answer to it leaves no doubt about a change. */
export function isRead(operation) { return /^(get|check|explain|query|onlineUsers$|recentLoad$|cluster)/.test(operation); }

/** Carries out an operation of the ops port and returns its answer. Throws a `CallError`. */
export async function call(operation, body = {}) {
  const sent = token;
  const { status, text } = await send(`/admin/v1/${operation}`, {
    method: "POST", body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", ...(sent === null ? {} : { Authorization: `Bearer ${sent}` }) },
  }, { isChange: !isRead(operation) });
  const answer = parse(text);
  if (status === 200 && answer !== null) return answer;
  if (status === 404 && (answer?.code ?? 404) === 404) throw new UnknownOperation(operation);
  const error = new CallError({
    status, code: answer?.code ?? null, mayHaveActed: answer?.mayTakeEffect === true && !isRead(operation),
    detail: typeof answer?.detail === "string" ? answer.detail : `The node answered ${status} without a reason.`,
  });
  // The answer to an older token says nothing about the one that is kept now.
  if (status === 401 && sent === token) logOut(`The node refuses the token: ${error.detail} Sign in again to continue on this page.`);
  throw error;
}

/** Reads `/readyz`: whether the node serves clients, and its reason if it does not. */
export async function readiness() {
  const { status, text } = await send("/readyz");
  return { isReady: status === 200, text: text.trim() || String(status) };
}

/** Reads `/metrics`. */
export async function metrics() {
  const { status, text } = await send("/metrics");
  if (status !== 200) throw new CallError({ status, detail: `/metrics answered ${status}.` });
  return new Metrics(text);
}

let openAPI = null;

/** Reads `/openapi.json` once. */
export async function openAPIDocument() {
  if (openAPI === null) {
    const { status, text } = await send("/openapi.json");
    if (status !== 200) throw new CallError({ status, detail: `/openapi.json answered ${status}: the ranges of settings are not known.` });
    openAPI = parse(text);
  }
  return openAPI;
}

async function send(path, options = {}, { isChange = false } = {}) {
  let response;
  try {
    response = await fetch(path, {
      ...options, cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(callMilliseconds),
    });
    const text = await response.text();
    if (text.length > answerMax) throw new CallError({ status: response.status, detail: `${path}: the answer is too long to show.` });
    return { status: response.status, text };
  } catch (error) {
    if (error instanceof CallError) throw error;
    const isLate = error.name === "TimeoutError";
    throw new CallError({
      detail: isLate ? `The node did not answer within ${callMilliseconds / 1000} s.` : "The node cannot be reached.",
      mayHaveActed: isChange,
    });
  }
}

function parse(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" ? value : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null; // The caller reports an answer that is not JSON.
    throw error;
  }
}

/** The samples of a page of metrics. */
export class Metrics {
  constructor(text) {
    this.time = performance.now();
    this.samples = new Map();
    for (const line of text.split("\n")) {
      const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
      if (!match) continue;
      const labels = {};
      for (const [, name, value] of (match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value.replace(/\\(.)/g, "$1");
      if (!this.samples.has(match[1])) this.samples.set(match[1], []);
      this.samples.get(match[1]).push({ labels, value: Number(match[3].replace("+Inf", "Infinity")) });
    }
  }

  /** The sum of a metric over all samples with these labels; undefined if there are none. */
  sum(name, labels = {}) {
    const found = (this.samples.get(name) ?? []).filter((sample) => Object.entries(labels).every(([key, value]) => sample.labels[key] === value));
    return found.length === 0 ? undefined : found.reduce((total, sample) => total + sample.value, 0);
  }

  /** The largest sample of a metric; undefined if there is none. */
  max(name) {
    const values = (this.samples.get(name) ?? []).map((sample) => sample.value);
    return values.length === 0 ? undefined : Math.max(...values);
  }

  /** The rise of a counter since an earlier page, a second. */
  rate(name, earlier, labels = {}) {
    const seconds = (this.time - (earlier?.time ?? this.time)) / 1000;
    const now = this.sum(name, labels);
    return seconds <= 0 || now === undefined ? undefined : Math.max(0, now - (earlier.sum(name, labels) ?? 0)) / seconds;
  }

  /** The upper limit of the bucket with a quantile of a histogram, since an earlier page; undefined without a sample. */
  quantile(name, quantile, earlier) {
    const buckets = (this.samples.get(`${name}_bucket`) ?? []).map(({ labels, value }) => ({
      limit: Number(labels.le.replace("+Inf", "Infinity")), value: value - (earlier?.sum(`${name}_bucket`, { le: labels.le }) ?? 0),
    }));
    const total = buckets.at(-1)?.value ?? 0;
    return total <= 0 ? undefined : buckets.find((bucket) => bucket.value >= total * quantile)?.limit;
  }
}
