// An organization in a real browser: created, joined by a link, and used with a role, before a control plane that really runs.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildConsole } from "../../../scripts/build-console.ts";
import { browserPath, startBrowser } from "../../fakes/browser.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { password } from "./page-data.ts";
import { newContext, signedIn, visit } from "./visit.ts";

if (browserPath === undefined)
  console.warn(
    "\n*** NOT PROVEN: that people use organizations in the console. There is no chromium; scripts/test brings it.\n",
  );

describe.skipIf(browserPath === undefined)("an organization in a browser", () => {
  let stack: Stack;
  let browser: Browser;
  beforeAll(async () => {
    await buildConsole();
    browser = await startBrowser();
    stack = await startStack({ agents: 0, controlPlaneEnv: { STOKER_SIGN_UP: "open", HF_HUB_OFFLINE: "1" } });
  }, 180_000);
  afterAll(async () => {
    await browser?.close();
    await stack?.stop();
  });

  const signUp = async (name: string): Promise<string> => {
    const email = `${name}@example.com`;
    const context = await newContext(browser);
    const data = { email, password, display_name: name };
    expect((await context.request.post(`${stack.url}/v1/auth/sign-up`, { data })).status()).toBe(200);
    return email;
  };

  it("is created, invites by a link, and shows a viewer what a viewer may do", async () => {
    const [ada, bob] = [await signUp("ada"), await signUp("bob")];
    const { page: owner, complaints } = await visit(
      await signedIn(browser, stack, ada),
      `${stack.url}/console/members`,
    );
    await owner.getByRole("button", { name: "Create organization" }).click();
    const creation = owner.getByRole("dialog");
    await creation.getByLabel("Name").fill("acme");
    await creation.getByRole("button", { name: "Create organization" }).click();
    await owner.getByRole("button", { name: "Invite" }).click();
    const invitation = owner.getByRole("dialog");
    await invitation.getByRole("combobox", { name: "Role" }).click();
    await owner.getByRole("option", { name: "Viewer" }).click();
    await invitation.getByRole("button", { name: "Invite" }).click();
    const link = (await invitation.locator("pre, code").first().textContent())?.trim() ?? "";
    expect(link).toContain("/console/join?ticket=");
    await invitation.getByRole("button", { name: "Close" }).last().click();

    const visitor = await visit(await signedIn(browser, stack, bob), link);
    await visitor.page.getByText("acme invites you as viewer.").waitFor();
    await visitor.page.getByRole("button", { name: "Join" }).click();
    await visitor.page.getByText("You joined acme.").waitFor();
    await visitor.page.getByRole("link", { name: "Organization" }).click();
    expect(await visitor.page.getByRole("button", { name: "Invite" }).isDisabled()).toBe(true);
    expect(await visitor.page.getByRole("button", { name: "Leave" }).isEnabled()).toBe(true);
    // Nobody signs in to an organization.
    expect(await visitor.page.getByRole("link", { name: "Security" }).count()).toBe(0);

    await visitor.page.getByRole("button", { name: "Account menu" }).click();
    await visitor.page.getByRole("menuitem", { name: "bob" }).click();
    await visitor.page.getByRole("link", { name: "Security" }).waitFor();
    await visitor.page.getByRole("button", { name: "Account menu" }).click();
    await visitor.page.getByRole("menuitem", { name: "acme" }).click();
    await visitor.page.getByRole("link", { name: "Security" }).waitFor({ state: "detached" });
    // A new visit of this browser opens the organization again.
    await visitor.page.reload();
    await visitor.page.getByRole("button", { name: "Account menu" }).click();
    await visitor.page.getByText("bob, viewer").waitFor();
    expect([...complaints, ...visitor.complaints]).toEqual([]);
  });

  it("gives a program short-lived keys, and a member a project and the reason of a suspension", async () => {
    const email = await signUp("cyd");
    const context = await signedIn(browser, stack, email);
    const { page, complaints } = await visit(context, `${stack.url}/console/members`);
    await page.getByRole("button", { name: "Create organization" }).click();
    const creation = page.getByRole("dialog");
    await creation.getByLabel("Name").fill("works");
    await creation.getByRole("button", { name: "Create organization" }).click();
    await page.getByRole("link", { name: "Workload identities" }).click();
    // The new organization has no funds, and its banner names the reason.
    await page.getByText("The account has no funds, so requests are refused.").waitFor();
    await page.getByRole("button", { name: "Create workload identity" }).click();
    const form = page.getByRole("dialog");
    await form.getByLabel("Name").fill("deploy");
    await form.getByLabel("Issuer").fill("https://token.actions.githubusercontent.com");
    await form.getByLabel("Subject").fill("repo:acme/app:*");
    await form.getByLabel("Further claims").fill("environment = production");
    await form.getByRole("button", { name: "Create workload identity" }).click();
    await form.waitFor({ state: "detached" });
    await page.getByText("repo:acme/app:*").waitFor();
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("No workload identities.").waitFor();

    await page.getByRole("link", { name: "Projects" }).click();
    await page.getByRole("button", { name: "Create project" }).click();
    const project = page.getByRole("dialog");
    await project.getByLabel("Name").fill("search");
    await project.getByRole("button", { name: "Create project" }).click();
    await project.waitFor({ state: "detached" });
    await page.getByRole("link", { name: "Organization" }).click();
    await page.getByRole("button", { name: "Add service account" }).click();
    const service = page.getByRole("dialog");
    await service.getByLabel("Name").fill("nightly");
    await service.getByRole("button", { name: "Add service account" }).click();
    await service.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Change", exact: true }).click();
    const member = page.getByRole("dialog");
    const projects = member.getByRole("combobox", { name: "Projects of new keys" });
    await projects.press("ArrowDown");
    await page.getByRole("option", { name: "search" }).click();
    await projects.press("Tab");
    const [sent] = await Promise.all([
      page.waitForResponse((response) => response.request().method() === "PATCH"),
      member.getByRole("button", { name: "Change", exact: true }).click(),
    ]);
    const changed = (await sent.json()) as { role: string; project_ids: readonly string[] };
    expect([changed.role, changed.project_ids.length]).toEqual(["developer", 1]);
    expect(complaints).toEqual([]);
  });
});
