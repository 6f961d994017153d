// The report of `rollcall simulate --html` in a headless Chromium: dark and light, in a narrow and a wide window.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { Chromium } from "./chromium.mjs";
import { Cluster, rollcall } from "./cluster.mjs";
import { lowContrast, tooWide } from "./inspect.mjs";

/** Elements that begin before the left edge, boxes that hide a part of their content, and lines that leave their chart. */
function clipped() {
  const found = [];
  const name = (element) => `${element.tagName}.${element.getAttribute("class")} "${element.textContent.trim().slice(0, 30)}"`;
  for (const element of document.querySelectorAll("body *")) {
    const box = element.getBoundingClientRect();
    if (box.left < -0.5) found.push(`${name(element)} begins at ${Math.round(box.left)} px`);
    if (getComputedStyle(element).overflowX !== "visible" && element.scrollWidth > element.clientWidth) {
      found.push(`${name(element)} shows ${element.clientWidth} of ${element.scrollWidth} px`);
    }
    const chart = element.ownerSVGElement?.getBoundingClientRect();
    if (chart && (box.left < chart.left - 1 || box.right > chart.right + 1 || box.top < chart.top - 1 || box.bottom > chart.bottom + 1)) {
      found.push(`${name(element)} leaves its chart`);
    }
  }
  return found;
}

test("The report of a simulation is readable in dark and light, and nothing of it is clipped at 360 and 1,440 px", async () => {
  const folder = await mkdtemp(join(tmpdir(), "report-"));
  const cluster = await Cluster.start(["a"]);
  const browser = await Chromium.open();
  try {
    const [{ clients, ops }] = cluster.nodes;
    const file = join(folder, "report.html");
    await promisify(execFile)("nice", [
      rollcall, "simulate", "--target", `http://${clients}`, "--ops", `http://${ops}`, "--scenario", "social", "--users", 60, "--watch", 5,
      "--rate", 100, "--duration", 2, "--settle", 10, "--verify", "--html", file,
    ].map(String), { timeout: 60_000 });
    const page = await browser.page(pathToFileURL(file).href);
    const read = await page.evaluate(() => ({
      charts: document.querySelectorAll("figure polyline").length, headings: [...document.querySelectorAll("h1, h2")].map((one) => one.innerText),
    }));
    assert.ok(read.charts >= 8, `${read.charts} lines in the charts`);
    assert.deepEqual(read.headings, ["Verified", "Errors", "Verification", "Relationships", "Settings", "Machine of the simulator"]);
    const backgrounds = new Set();
    for (const scheme of ["dark", "light"]) {
      await page.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
      for (const width of [360, 1_440]) {
        await page.send("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: false });
        const place = `${scheme}, ${width} px`;
        assert.deepEqual(await page.evaluate(tooWide), [], place);
        assert.deepEqual(await page.evaluate(clipped), [], place);
        assert.deepEqual(await page.evaluate(lowContrast), [], place);
        backgrounds.add(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
      }
    }
    assert.equal(backgrounds.size, 2, `${[...backgrounds]}`);
  } finally {
    await browser.close();
    await cluster.stop();
    await rm(folder, { recursive: true, force: true });
  }
});
