// A real browser, Debian's: no package of ours brings one. Whoever finds none says what it did not prove.
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { Browser } from "playwright-core";

const names = ["chromium", "chromium-browser", "google-chrome"];

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
