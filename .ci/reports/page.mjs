// Opens every page of a folder like its readers do, and fails if something does not
// work for one of them. node page.mjs PAGES SHOTS
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { chromium } from "playwright-core";

const [pages, shots] = process.argv.slice(2).map((p) => resolve(p));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const openLimit = 1000; // ms until a page is drawn, that of the full set included

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
      const context = await browser.newContext({ viewport: { width, height }, colorScheme, permissions: ["clipboard-read", "clipboard-write"] });
      const page = await context.newPage();
      const wrong = [];
      page.on("pageerror", (e) => wrong.push(`script: ${e.message}`));
      page.on("console", (m) => m.type() === "error" && wrong.push(`console: ${m.text()}`));
      page.on("dialog", (d) => wrong.push(`dialog: ${d.message()}`) && d.dismiss());
      page.on("request", (r) => /^(file|data):/.test(r.url()) || wrong.push(`asked for ${r.url()}`));
      const took = await opening(async () => {
        await page.goto("about:blank");
        return async () => {
          await page.goto("file://" + join(pages, file));
          await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
        };
      });
      if (took > openLimit) wrong.push(`drawn after ${took} ms`);
      await page.screenshot({ path: join(shots, what + ".png") });
      await page.screenshot({ path: join(shots, what + "-full.png"), fullPage: true, clip: undefined });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (wide > 0) wrong.push(`${wide} px wider than the screen`);
      await page.evaluate(() => document.querySelectorAll("details").forEach((d, i) => { if (i < 12) d.open = true; }));
      await drawn(page);
      await page.evaluate(() => document.querySelectorAll("details[open] details").forEach((d) => { d.open = true; }));
      const open = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (open > 0) wrong.push(`${open} px wider than the screen once drills are open`);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
      for (const v of violations) wrong.push(`axe ${v.id} (${v.impact}): ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.target.join(" ") + " " + (n.any[0]?.message ?? "")).join(" | ")}`);
      if (await page.locator(".picture").count()) wrong.push(...(await keyboard(page)));
      if (await page.locator("form.find").count()) wrong.push(...(await finding(page)));
      if (await page.locator("details.drill").count()) wrong.push(...(await addresses(context, "file://" + join(pages, file))));
      report(wrong.length === 0, `${what}: drawn after ${took} ms${wrong.map((w) => "\n       " + w).join("")}`);
      await context.close();
    }
  }
}
await browser.close();
if (failed) console.log(`${failed} pages let somebody down`);
process.exit(failed ? 1 : 0);

// opening is how long it takes to open a page, in ms: the shortest of up to four times, since this machine may be busy.
async function opening(prepare) {
  let shortest = Infinity;
  for (let i = 0; i < 4 && shortest > openLimit; i++) {
    const open = await prepare();
    const start = performance.now();
    await open();
    shortest = Math.min(shortest, Math.round(performance.now() - start));
  }
  return shortest;
}

// drawn waits until what open drills show is drawn.
function drawn(page) {
  return page.waitForFunction(() => !document.querySelector("details.drill[open] > [data-packed]"));
}

// finding finds drills by keyboard, and returns what is wrong.
async function finding(page) {
  const wrong = [];
  const want = (ok, text) => ok || wrong.push("find: " + text);
  const shown = () => page.locator("[data-outcome]:not([hidden])").count();
  const all = await shown();
  const last = (await page.locator("[data-outcome] > :is(summary, th)").last().locator(".name").or(page.locator("tr[data-outcome] > th").last()).last().textContent()).trim();
  await page.locator("body").press("/");
  await page.keyboard.type(last);
  want((await shown()) < all, `"${last}" hides nothing`);
  want(await page.locator("[data-outcome]").last().isVisible(), `"${last}" is hidden`);
  await page.keyboard.press("Enter");
  if (await page.locator("details.drill").count()) want(await page.evaluate(() => document.activeElement.localName === "summary"), "Enter does not go to the first drill");
  await page.locator("form.find input[type=search]").fill("");
  for (const box of await page.locator("form.find input[type=checkbox]").all()) {
    const outcome = await box.inputValue();
    await box.focus();
    await page.keyboard.press("Space");
    want((await page.locator(`[data-outcome="${outcome}"]:not([hidden])`).count()) === 0, `${outcome} is still shown`);
    await page.keyboard.press("Space");
  }
  want((await shown()) === all, "not every drill is back");
  return wrong;
}

// addresses follows links to the last drill and its last check, copies its command, and returns what is wrong.
async function addresses(context, url) {
  const wrong = [];
  const want = (ok, text) => ok || wrong.push("link: " + text);
  const first = await context.newPage();
  await first.goto(url);
  const drill = first.locator("details.drill").last();
  const id = await drill.getAttribute("id");
  await drill.evaluate((d) => { d.open = true; });
  await drawn(first);
  const check = await drill.evaluate((d) => [...d.querySelectorAll("[id]")].map((e) => e.id).filter((i) => i.startsWith(d.id + "/") && !/\/(timeline|keys|sequence)/.test(i)).pop());
  await first.close();
  for (const target of [id, check]) {
    const page = await context.newPage();
    try {
      const took = await opening(async () => {
        await page.goto("about:blank");
        return async () => {
          await page.goto(url + "#" + target.split("/").map(encodeURIComponent).join("/"));
          await page.waitForFunction((t) => {
            const e = document.getElementById(t);
            const box = e && e.checkVisibility() && e.getBoundingClientRect();
            return box && box.top > -2 && box.top < innerHeight;
          }, target, { timeout: 10000 });
        };
      });
      if (took > openLimit) wrong.push(`link: ${target} is shown after ${took} ms`);
    } catch {
      wrong.push(`link: ${target} is not opened and shown`);
    }
    if (target === id && (await page.locator("details.drill").last().locator("button.copy").count())) {
      await page.locator("details.drill").last().locator("button.copy").first().click();
      await page.waitForTimeout(50);
      want(/copied/.test(await page.locator("details.drill").last().locator("button.copy").first().textContent()), "the command is not copied");
    }
    await page.close();
  }
  return wrong;
}

// keyboard uses the page without a mouse, and returns what is wrong.
async function keyboard(page) {
  const wrong = [];
  const want = (ok, text) => ok || wrong.push("keyboard: " + text);
  const span = () => page.evaluate(() => Number(document.querySelector("figure.timeline").style.getPropertyValue("--span")));
  const tip = () => page.locator(".tip").first().textContent();
  await page.locator(".picture").first().focus();
  const whole = await span();
  await page.keyboard.press("n");
  want(/after the? .*\(\+\d/.test(await tip()), `n shows no moment: "${await tip()}"`);
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
