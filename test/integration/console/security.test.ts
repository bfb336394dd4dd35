// Second factors in a real browser, with Chromium's own virtual authenticator, before a control plane that really runs.
import { Secret, TOTP } from "otpauth";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildConsole } from "../../../scripts/build-console.ts";
import { query } from "../../e2e/spine/database.ts";
import { browserPath, goTo, startBrowser } from "../../fakes/browser.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { password } from "./page-data.ts";
import { newContext, visit } from "./visit.ts";

if (browserPath === undefined)
  console.warn(
    "\n*** NOT PROVEN: that a person can set up and use second factors in the console. There is no chromium; scripts/test brings it.\n",
  );

describe.skipIf(browserPath === undefined)("second factors in a browser", () => {
  let stack: Stack;
  let browser: Browser;
  let origin: string;
  beforeAll(async () => {
    await buildConsole();
    browser = await startBrowser();
    stack = await startStack({ agents: 0, controlPlaneEnv: { STOKER_SIGN_UP: "open", HF_HUB_OFFLINE: "1" } });
    // Passkeys have no bare address, and without TLS browsers lend them to localhost only.
    origin = stack.url.replace("127.0.0.1", "localhost");
  }, 180_000);
  afterAll(async () => {
    await browser?.close();
    await stack?.stop();
  });

  async function signUp(name: string) {
    const { page, complaints } = await visit(await newContext(browser), `${origin}/console/sign-up`, {
      refused: [401, 403],
    });
    await page.getByLabel("E-mail address").fill(`${name}@example.com`);
    await page.getByLabel("Name of the account").fill(name);
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign up" }).click();
    const key = (await page.getByLabel("Your API key").locator("pre").textContent()) ?? "";
    return { page, complaints, key };
  }

  /** As if the person had signed in an hour ago. */
  const age = () =>
    query(
      stack.databaseUrl,
      "update login_session set created_at = created_at - interval '1 hour', auth_time = auth_time - interval '1 hour'",
    );

  async function addVirtualAuthenticator(page: Page): Promise<void> {
    const devtools = await page.context().newCDPSession(page);
    await devtools.send("WebAuthn.enable");
    await devtools.send("WebAuthn.addVirtualAuthenticator", {
      options: {
        protocol: "ctap2",
        transport: "internal",
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    });
  }

  /** In the menu of the account. */
  async function choose(page: Page, name: string): Promise<void> {
    await page.getByRole("button", { name: "Account menu" }).click();
    await page.getByRole("menuitem", { name }).click();
  }

  async function signOut(page: Page): Promise<void> {
    await choose(page, "Sign out");
    await page.getByRole("heading", { name: "Sign in to Stoker" }).waitFor();
  }

  it("a user sets up an app and a passkey, saves the recovery codes, and signs in with each", async () => {
    const { page, complaints } = await signUp("ada");
    await addVirtualAuthenticator(page);
    await choose(page, "Security");
    await page.getByText("None. Anyone who knows your password").waitFor();
    await page.getByRole("button", { name: "Set up an authenticator app" }).click();
    await page.getByRole("img", { name: /QR code/ }).waitFor();
    const secret = (await page.locator(".code pre").textContent()) ?? "";
    const app = new TOTP({ secret: Secret.fromBase32(secret) });
    await page.getByLabel("Code").fill("000000");
    await page.getByRole("button", { name: "Confirm" }).click();
    await page.getByRole("alert").filter({ hasText: "wrong" }).waitFor();
    await page.getByLabel("Code").fill(app.generate());
    await page.getByRole("button", { name: "Confirm" }).click();
    await page.getByRole("heading", { name: "Save your recovery codes" }).waitFor();
    const codes = ((await page.locator(".code pre").textContent()) ?? "").split("\n");
    expect(codes).toHaveLength(10);
    await page.getByRole("button", { name: "I have saved them" }).click();
    await page.getByText("10 recovery codes left.").waitFor();
    expect(await page.content()).not.toContain(codes[0]);
    await page.getByLabel("Name of the passkey").fill("laptop");
    await page.getByRole("button", { name: "Add a passkey" }).click();
    await page.getByText("Passkey “laptop”").waitFor();
    await page.getByLabel("Second factor", { exact: true }).selectOption({ label: "laptop" });
    await page.getByLabel("New name").fill("work laptop");
    await page.getByRole("button", { name: "Rename" }).click();
    await page.getByText("Passkey “work laptop”").waitFor();

    await signOut(page);
    await page.getByRole("button", { name: "Use a passkey" }).click();
    await page.getByRole("button", { name: "Account menu" }).waitFor();

    await signOut(page);
    await page.getByLabel("E-mail address").fill("ada@example.com");
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByLabel(/^Code of your authenticator app/).fill(codes[0] ?? "");
    await page.getByRole("button", { name: "Continue" }).click();
    await choose(page, "Security");
    await page.getByText("9 recovery codes left.").waitFor();
    expect(complaints).toEqual([]);
  }, 120_000);

  it("a user with an old sign-in signs in again before creating a key, and continues on the same page", async () => {
    const { page, complaints, key } = await signUp("grace");
    await page.getByRole("navigation").getByRole("link", { name: "API keys" }).click();
    await age();
    await page.getByRole("button", { name: "Create key" }).click();
    const form = page.getByRole("dialog", { name: "Create key" });
    await form.getByRole("textbox", { name: "Name", exact: true }).fill("first");
    await form.getByRole("button", { name: "Create key" }).click();
    const dialog = page.getByRole("dialog", { name: "Sign in again" });
    await dialog.waitFor();
    expect(await dialog.getByLabel("Password").evaluate((input) => input === document.activeElement)).toBe(true);
    await dialog.getByText("To create a key, confirm that it is you.").waitFor();
    await dialog.getByText("stoker auth link").waitFor();
    // Leaving it makes no key, and says why.
    await page.keyboard.press("Escape");
    await form.getByRole("alert").filter({ hasText: "Sign in again" }).waitFor();
    expect(
      (await stack.call("GET", "/v1/api-tokens", undefined, { authorization: `Bearer ${key}` })).body,
    ).toHaveLength(1);

    await form.getByRole("button", { name: "Create key" }).click();
    await dialog.getByLabel("Password").fill("not this one");
    await dialog.getByRole("button", { name: "Sign in" }).click();
    await dialog.getByRole("alert").waitFor();
    await dialog.getByLabel("Password").fill(password);
    await dialog.getByRole("button", { name: "Sign in" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByLabel("The new key").locator("pre").waitFor();
    expect(complaints).toEqual([]);
  }, 120_000);

  it("with a required second factor, a user can only set one up, and then approves a CLI login", async () => {
    const loginId = "security-test-login-id-000000001".slice(0, 32);
    const { page, complaints } = await signUp("mary");
    await addVirtualAuthenticator(page);
    const put = (second_factor: string) => stack.call("PUT", "/v1/admin/sign-in-policy", { second_factor });
    expect((await put("all")).status).toBe(200);
    try {
      await page.getByRole("navigation").getByRole("link", { name: "API keys" }).click();
      await page.getByRole("heading", { name: "Set up a second factor" }).waitFor();
      await goTo(page, `${origin}/login?cli=${loginId}`);
      await page.getByRole("link", { name: "Set one up in the console" }).click();
      await page.getByLabel("Name of the passkey").fill("laptop");
      await page.getByRole("button", { name: "Add a passkey" }).click();
      await page.getByRole("button", { name: "I have saved them" }).click();
      await page.getByText(loginId.slice(0, 4).toUpperCase()).waitFor();

      // A sign-in that is old gives no key: the page asks for a new one, which a passkey gives by way of the console.
      await age();
      await goTo(page, `${origin}/login?cli=${loginId}`);
      expect(await page.getByRole("button", { name: "Give it a key" }).count()).toBe(0);
      await page.context().clearCookies();
      await page.getByRole("link", { name: "Sign in with a passkey" }).click();
      await page.getByRole("button", { name: "Use a passkey" }).click();
      const waiting = stack.call("GET", `/github/cli/login?login_id=${loginId}`, undefined, { authorization: "" });
      await page.getByRole("button", { name: "Give it a key" }).click();
      await page.getByRole("heading", { name: "The command line has its key" }).waitFor();
      expect((await waiting).body.access_token).toMatch(/^stk_/);
      expect(complaints).toEqual([]);
    } finally {
      await put("none");
    }
  }, 120_000);
});
