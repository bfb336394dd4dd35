// The stripe adapter against stripe-mock, which checks calls by Stripe's own description of its API. Go builds it from its module proxy.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createStripePayments } from "../../../control-plane/payments/stripe.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { freePort } from "../../fakes/free-port.ts";

const secretKey = "sk_test_123";
const account = "u:1000000000001" as AccountId;

let folder: string | undefined;
let mock: ChildProcess | undefined;
let apiBase: string | undefined;

beforeAll(async () => {
  const binary = stripeMock();
  if (binary === undefined) return;
  const port = await freePort();
  mock = spawn(binary, ["-http-port", String(port)], { stdio: "ignore" });
  apiBase = `http://127.0.0.1:${port}`;
  const headers = { authorization: `Bearer ${secretKey}` };
  await vi.waitFor(async () => expect((await fetch(`${apiBase}/v1/customers`, { headers })).status).toBe(200), {
    timeout: 30_000,
  });
}, 600_000);
afterAll(() => {
  mock?.kill();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

/** STRIPE_MOCK names one that is there already. */
function stripeMock(): string | undefined {
  const given = process.env["STRIPE_MOCK"];
  if (given) return given;
  folder = mkdtempSync(join(tmpdir(), "stripe-mock-"));
  try {
    const env = { ...process.env, GOBIN: folder };
    execFileSync("go", ["install", "github.com/stripe/stripe-mock@latest"], { env, stdio: "ignore", timeout: 480_000 });
    return join(folder, "stripe-mock");
  } catch {
    return undefined;
  }
}

const adapter = () => createStripePayments({ secretKey, webhookSecret: "whsec_test", apiBase });

describe("the stripe adapter against stripe-mock", () => {
  const proven = (context: { skip(note: string): never }): void => {
    if (apiBase !== undefined) return;
    console.warn("NOT PROVEN: Stripe's calls (no Go >= 1.22 to build stripe-mock with, and no STRIPE_MOCK)");
    context.skip("no stripe-mock");
  };

  it("opens a customer, a portal and a checkout page", async (context) => {
    proven(context);
    const customer = await adapter().openCustomer(account, "ada@example.com");
    expect(customer).toMatch(/^cus_/);
    expect(await adapter().portal(customer, "https://stoker.example/billing")).toMatch(/^https:/);
    const order = { account, customer, amountCents: 2000 };
    await expect(adapter().checkout(order, "https://stoker.example/billing")).resolves.toBeDefined();
  });

  it("reads what is on file and charges it off session", async (context) => {
    proven(context);
    const customer = await adapter().openCustomer(account, "");
    expect(await adapter().onFile(customer ?? "")).toMatchObject({ hasPaymentMethod: true });
    const order = { account, customer, amountCents: 2000, chargeId: "chg_1", purpose: "topup" as const };
    // The mock keeps no state: its payment is always one that still asks for a payment method.
    expect(await adapter().charge(order)).toEqual({ kind: "declined", why: "requires_payment_method" });
  });
});
