// The console where the way to its server is cut for a moment: what a person sees, and what is asked again by itself.
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildConsole } from "../../../scripts/build-console.ts";
import { browserPath, goTo, startBrowser } from "../../fakes/browser.ts";
import { type Edge, startEdge } from "../../fakes/edge.ts";

describe.skipIf(browserPath === undefined)("the console on a way that is cut for a moment", () => {
  let browser: Browser;
  let edge: Edge;
  beforeAll(async () => {
    await buildConsole();
    [browser, edge] = await Promise.all([startBrowser(), startEdge()]);
  });
  afterAll(async () => {
    await browser?.close();
    await edge?.close();
  });

  const newPage = async () => {
    const page = await (await browser.newContext()).newPage();
    page.setDefaultTimeout(60_000);
    return page;
  };
  /** The first request for it reaches nobody. */
  async function cutOnce(page: Page, pattern: string): Promise<() => number> {
    let asked = 0;
    await page.route(pattern, (route) => {
      asked += 1;
      return asked === 1 ? route.abort("connectionreset") : route.continue();
    });
    return () => asked;
  }
  const form = (page: Page) => page.getByRole("heading", { name: "Sign in to Stoker" });

  it("reports a file that failed to load, with a link to reload", async () => {
    const page = await newPage();
    await cutOnce(page, "**/console/assets/index-*.js");
    await page.goto(`${edge.url}/console`);
    const reload = page.getByRole("link", { name: "Reload" });
    await reload.waitFor();
    await reload.click();
    await form(page).waitFor();
    expect(await page.locator(".unloaded").count()).toBe(0);
  });

  it("retries a failed GET once, and sends a write once", async () => {
    const page = await newPage();
    const asked = await cutOnce(page, "**/v1/auth/session");
    await goTo(page, `${edge.url}/console`);
    await form(page).waitFor();
    expect(asked()).toBe(2);
    const sent = await cutOnce(page, "**/v1/auth/sign-in");
    await page.getByLabel("E-mail address").fill("ada@example.com");
    await page.getByLabel("Password").fill("correct horse battery");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").filter({ hasText: "Could not reach the server" }).waitFor();
    expect(sent()).toBe(1);
  });
});
