// Takes a picture of a drill's timeline, or of the first screen. node picture.mjs REPORT FILE [DRILL]
import { chromium } from "playwright-core";

const [report, file, drill] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
try {
  const page = await browser.newPage({ viewport: { width: drill ? 1100 : 1280, height: 900 }, colorScheme: "light" });
  await page.goto("file://" + report);
  if (!drill) {
    await page.screenshot({ path: file });
  } else {
    await page.evaluate((id) => (document.getElementById(id).open = true), drill);
    await page.waitForFunction((id) => !document.getElementById(id).querySelector("[data-packed]"), drill);
    const picture = page.locator(`[id="${drill}"] .picture`);
    if ((await picture.count()) !== 1) throw new Error(`${report} has no timeline of ${drill}`);
    await picture.screenshot({ path: file });
  }
} finally {
  await browser.close();
}
