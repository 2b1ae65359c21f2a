// Opens every page of a folder like its readers do, and fails if something does not
// work for one of them. node page.mjs PAGES SHOTS
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { chromium } from "playwright-core";

const [pages, shots] = process.argv.slice(2).map((p) => resolve(p));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const openLimit = 2000; // ms until a page is drawn

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
let failed = 0;
const report = (ok, text) => {
  if (!ok) failed++;
  console.log(`${ok ? "ok  " : "FAIL"} ${text}`);
};

for (const file of readdirSync(pages).filter((f) => f.endsWith(".html")).sort()) {
  const name = file.replace(".html", "");
  for (const [device, width, height] of [["desktop", 1400, 900], ["phone", 390, 844]]) {
    for (const colorScheme of ["light", "dark"]) {
      const what = `${name}-${device}-${colorScheme}`;
      const context = await browser.newContext({ viewport: { width, height }, colorScheme });
      const page = await context.newPage();
      const wrong = [];
      page.on("pageerror", (e) => wrong.push(`script: ${e.message}`));
      page.on("console", (m) => m.type() === "error" && wrong.push(`console: ${m.text()}`));
      page.on("dialog", (d) => wrong.push(`dialog: ${d.message()}`) && d.dismiss());
      page.on("request", (r) => /^(file|data):/.test(r.url()) || wrong.push(`asked for ${r.url()}`));
      const start = performance.now();
      await page.goto("file://" + join(pages, file));
      await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
      const took = Math.round(performance.now() - start);
      if (took > openLimit) wrong.push(`drawn after ${took} ms`);
      await page.screenshot({ path: join(shots, what + ".png") });
      await page.screenshot({ path: join(shots, what + "-full.png"), fullPage: true, clip: undefined });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (wide > 0) wrong.push(`${wide} px wider than the screen`);
      await page.evaluate(() => document.querySelectorAll("details").forEach((d, i) => { if (i < 12) d.open = true; }));
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
      for (const v of violations) wrong.push(`axe ${v.id} (${v.impact}): ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.target.join(" ") + " " + (n.any[0]?.message ?? "")).join(" | ")}`);
      if (await page.locator(".picture").count()) wrong.push(...(await keyboard(page)));
      report(wrong.length === 0, `${what}: drawn after ${took} ms${wrong.map((w) => "\n       " + w).join("")}`);
      await context.close();
    }
  }
}
await browser.close();
if (failed) console.log(`${failed} pages let somebody down`);
process.exit(failed ? 1 : 0);

// keyboard uses the page without a mouse, and returns what is wrong.
async function keyboard(page) {
  const wrong = [];
  const want = (ok, text) => ok || wrong.push("keyboard: " + text);
  const span = () => page.evaluate(() => Number(document.querySelector("figure.timeline").style.getPropertyValue("--span")));
  const tip = () => page.locator(".tip").first().textContent();
  await page.locator(".picture").first().focus();
  const whole = await span();
  await page.keyboard.press("n");
  want(/after the notice \(\+\d/.test(await tip()), `n shows no moment: "${await tip()}"`);
  await page.keyboard.press("+");
  want((await span()) < whole, "+ does not zoom in");
  await page.keyboard.press("-");
  await page.keyboard.press("0");
  want((await span()) === whole, "0 does not show the whole drill");
  const before = await tip();
  await page.keyboard.press("ArrowRight");
  want((await tip()) !== before, "the arrow does not move the cursor");
  await page.keyboard.press("Escape");
  want(!(await page.locator(".tip").first().isVisible()), "Escape does not hide the moment");
  return wrong;
}
