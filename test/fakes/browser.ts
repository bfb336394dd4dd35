// A real browser, Debian's: no package of ours brings one. Whoever finds none says what it did not prove.
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { Browser, Page, Request } from "playwright-core";

const names = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/** Undefined: this machine has none. */
export const browserPath: string | undefined = (process.env["PATH"] ?? "")
  .split(delimiter)
  .flatMap((folder) => names.map((name) => join(folder, name)))
  .find((file) => existsSync(file));

export async function startBrowser(): Promise<Browser> {
  const { chromium } = await import("playwright-core");
  if (browserPath === undefined) throw new Error("no browser is installed");
  return chromium.launch({
    executablePath: browserPath,
    // Small machines have no room in /dev/shm, and a test's pages are our own.
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
    timeout: 60_000,
  });
}

/** What Chromium says of everything under way when the networks of the machine change, as suites about containers make them. */
export const networkChanged = "ERR_NETWORK_CHANGED";

/** Loads the page with all its files; again where the networks of the machine changed meanwhile, as a person would. */
export async function goTo(page: Page, url: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    let isCut = false;
    const note = (request: Request) => {
      if (request.failure()?.errorText.includes(networkChanged)) isCut = true;
    };
    page.on("requestfailed", note);
    try {
      await page.goto(url);
    } catch (error) {
      if (!String(error).includes(networkChanged)) throw error;
      isCut = true;
    } finally {
      page.off("requestfailed", note);
    }
    if (!isCut) return;
    if (tries === 10) throw new Error(`the networks of this machine do not come to rest: ${url} could not be loaded`);
  }
}
