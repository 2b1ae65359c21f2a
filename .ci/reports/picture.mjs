// Takes a picture of a drill's timeline. node picture.mjs REPORT DRILL FILE
import { chromium } from "playwright-core";

const [report, drill, file] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
try {
  const page = await browser.newPage({ viewport: { width: 1100, height: 900 }, colorScheme: "light" });
  await page.goto("file://" + report);
  await page.evaluate((id) => (document.getElementById(id).open = true), drill);
  await page.waitForFunction((id) => !document.getElementById(id).querySelector("[data-packed]"), drill);
  const picture = page.locator(`[id="${drill}"] .picture`);
  if ((await picture.count()) !== 1) throw new Error(`${report} has no timeline of ${drill}`);
  await picture.screenshot({ path: file });
} finally {
  await browser.close();
}
