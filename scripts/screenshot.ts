// Takes the picture of the README: the console's first page as an operator sees it.
// Usage: node scripts/screenshot.ts http://127.0.0.1:8080 .stoker/admin.key docs/images/console.png
import { mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { chromium } from "playwright-core";

const [url, keyFile, output] = process.argv.slice(2);
if (!url || !keyFile || !output) {
  process.stderr.write("Usage: node scripts/screenshot.ts URL KEY_FILE OUTPUT.png\n");
  process.exit(2);
}
const answer = await fetch(`${url}/v1/auth/sign-in-link`, {
  method: "POST",
  headers: { authorization: `Bearer ${readFileSync(keyFile, "utf8").trim()}` },
});
if (!answer.ok) throw new Error(`The server refused a sign-in link: ${await answer.text()}`);
const { url: link } = (await answer.json()) as { readonly url: string };

const browser = await chromium.launch({
  executablePath: process.env["STOKER_CHROMIUM"] ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme: "light" });
  await page.goto(link);
  // The page asks first, so that a preview of the link does not use it.
  await page.getByRole("button").first().click();
  await page.waitForURL((address) => address.pathname !== "/login/link", { timeout: 60_000 });
  await page.goto(`${url}/console?range=1h`);
  await page.locator("canvas").first().waitFor({ timeout: 60_000 });
  await page.waitForLoadState("networkidle");
  mkdirSync(dirname(output), { recursive: true });
  await page.screenshot({ path: output });
} finally {
  await browser.close();
}
