import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Stripe } from "stripe";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { PaymentProvider } from "../../../control-plane/billing/payments.ts";
import { createStripePayments } from "../../../control-plane/payments/stripe.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { freePort } from "../../fakes/free-port.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { openBillingWorld, usd } from "./billing-world.ts";

const webhookSecret = "whsec_test";
const secretKey = "sk_test_123";
const account = "u:1000000000001" as AccountId;

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

/** An adapter before a server that sends `replies` by method and path, and the calls that it received. */
async function beforeStripe(replies: Readonly<Record<string, (url: URL, form: URLSearchParams) => object>>) {
  const calls: { readonly call: string; readonly form: Record<string, string>; readonly idempotencyKey: unknown }[] =
    [];
  const server = createHttpServer(async (request, response) => {
    const url = new URL(request.url ?? "", "http://stripe.test");
    const call = `${request.method} ${url.pathname}`;
    const form = new URLSearchParams(Buffer.concat(await Array.fromAsync(request)).toString());
    calls.push({ call, form: Object.fromEntries(form), idempotencyKey: request.headers["idempotency-key"] });
    const reply = replies[call]?.(url, form);
    response.statusCode = reply ? 200 : 404;
    response.setHeader("content-type", "application/json").end(JSON.stringify(reply ?? { error: { message: call } }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { calls, stripe: createStripePayments({ secretKey, webhookSecret, apiBase: `http://127.0.0.1:${port}` }) };
}

const list = (...data: object[]) => ({ object: "list", data, has_more: false });
const order = { account, customer: "cus_1", amountCents: 2000, chargeId: "chg_3", purpose: "topup" as const };
const card = list({ id: "pm_1", object: "payment_method" });

const adapter = (): PaymentProvider => createStripePayments({ secretKey, webhookSecret, apiBase: undefined });

describe("the stripe adapter", () => {
  it("opens one customer per account, and portal and checkout pages that return to the console", async () => {
    const { stripe, calls } = await beforeStripe({
      "POST /v1/customers": () => ({ object: "customer", id: "cus_1" }),
      "POST /v1/billing_portal/sessions": () => ({ url: "https://stripe.example/portal" }),
      "POST /v1/checkout/sessions": () => ({ url: "https://stripe.example/checkout" }),
    });
    const returnUrl = "https://stoker.example/billing";
    expect(await stripe.openCustomer(account, "ada@example.com")).toBe("cus_1");
    expect(await stripe.portal("cus_1", returnUrl)).toBe("https://stripe.example/portal");
    expect(await stripe.checkout(order, returnUrl)).toBe("https://stripe.example/checkout");
    const [customer, portal, checkout] = calls;
    expect(customer).toMatchObject({
      form: { email: "ada@example.com", "metadata[stoker_account]": account },
      idempotencyKey: `customer/${account}`,
    });
    expect(portal?.form).toEqual({ customer: "cus_1", return_url: returnUrl });
    expect(checkout?.form).toMatchObject({
      customer: "cus_1",
      mode: "payment",
      "line_items[0][price_data][currency]": "usd",
      "line_items[0][price_data][unit_amount]": "2000",
      "payment_intent_data[metadata][stoker_account]": account,
      "payment_intent_data[setup_future_usage]": "off_session",
      success_url: returnUrl,
    });
  });

  it("reads what is on file, and declines a payment that still asks for a payment method", async () => {
    const { stripe, calls } = await beforeStripe({
      "GET /v1/customers/cus_1/payment_methods": () => card,
      "GET /v1/customers/cus_1": () => ({ object: "customer", id: "cus_1", address: { country: "DE" } }),
      "POST /v1/payment_intents": () => ({ object: "payment_intent", id: "pi_1", status: "requires_payment_method" }),
    });
    expect(await stripe.onFile("cus_1")).toEqual({ hasPaymentMethod: true, hasBillingAddress: true });
    expect(await stripe.charge(order)).toEqual({ kind: "declined", why: "requires_payment_method" });
    expect(calls.at(-1)).toMatchObject({
      form: { amount: "2000", currency: "usd", payment_method: "pm_1", off_session: "true", confirm: "true" },
      idempotencyKey: "chg_3",
    });
  });
});

it("an account that Stripe does not know has nothing on file, which is not a refusal", async () => {
  expect(await adapter().charge({ ...order, customer: null })).toEqual({ kind: "nothing_on_file" });
});

it("a payment that is pending has an id, by which it is looked up", async () => {
  const intent = { object: "payment_intent", id: "pi_7" };
  const { stripe, calls } = await beforeStripe({
    "GET /v1/customers/cus_1/payment_methods": () => card,
    "POST /v1/payment_intents": () => ({ ...intent, status: "processing" }),
    "GET /v1/payment_intents/pi_7": () => ({ ...intent, status: "succeeded" }),
  });
  expect(await stripe.charge(order)).toEqual({ kind: "pending", paymentId: "pi_7" });
  expect(await stripe.outcomeOf("pi_7")).toEqual({ kind: "paid", paymentId: "pi_7" });
  expect(calls.slice(1).map(({ call }) => call)).toEqual(["POST /v1/payment_intents", "GET /v1/payment_intents/pi_7"]);
});

it("a payment whose answer nobody heard is found by its charge, over pages, and nothing is ordered for it", async () => {
  const intent = (id: string, charge: string) => ({
    id,
    object: "payment_intent",
    status: "succeeded",
    metadata: { stoker_charge: charge },
  });
  const { stripe, calls } = await beforeStripe({
    "GET /v1/payment_intents": ({ searchParams }) =>
      searchParams.has("starting_after")
        ? list(intent("pi_2", "chg_2"))
        : { ...list(intent("pi_1", "chg_1")), url: "/v1/payment_intents", has_more: true },
  });
  const lost = { ...order, orderedAtMs: Date.now() };
  expect(await stripe.find({ ...lost, chargeId: "chg_2" })).toEqual({ kind: "paid", paymentId: "pi_2" });
  expect(await stripe.find({ ...lost, chargeId: "chg_3" })).toBeUndefined();
  expect(new Set(calls.map(({ call }) => call))).toEqual(new Set(["GET /v1/payment_intents"]));
});

it("a provider that cannot be reached is told from a card that was refused", async () => {
  const away = createStripePayments({ secretKey, webhookSecret, apiBase: `http://127.0.0.1:${await freePort()}` });
  await expect(away.openCustomer(account, "")).rejects.toMatchObject({ code: "payment_provider_away" });
});

describe("events of Stripe", () => {
  const signed = (event: object, secret = webhookSecret) => {
    const payload = JSON.stringify({ object: "event", api_version: "2026-01-01", ...event });
    return [
      Buffer.from(payload),
      new Stripe(secretKey).webhooks.generateTestHeaderString({ payload, secret }),
    ] as const;
  };
  const intent = (of: AccountId, change: object = {}) => ({
    object: "payment_intent",
    id: "pi_1",
    currency: "usd",
    amount_received: 2000,
    metadata: { stoker_account: of },
    ...change,
  });
  const open = async () => {
    const world = await openBillingWorld(postgres);
    const own = await world.account(usd);
    return { world, own, billing: world.make(adapter()) };
  };

  it("credit a payment once, sent twice and under a second event", async () => {
    const { world, own, billing } = await open();
    const succeeded = { id: "evt_1", type: "payment_intent.succeeded", data: { object: intent(own) } };
    for (const event of [succeeded, succeeded, { ...succeeded, id: "evt_2" }])
      await billing.paying.takeEvent(...signed(event));
    expect((await world.budget(own)).limit).toBe(21n * usd);
    const seen = await world.db.selectFrom("paymentEvent").select("eventId").orderBy("eventId").execute();
    expect(seen.map((row) => row.eventId)).toEqual(["evt_1", "evt_2"]);
  });

  it("end the same in the wrong order: a refusal told after the payment changes nothing", async () => {
    const { world, own, billing } = await open();
    const { chargeId } = await world.db
      .insertInto("charge")
      .values({
        chargeId: "chg_9",
        accountId: own,
        purpose: "topup",
        invoiceId: null,
        amount: 20n * usd,
        provider: "stripe",
        state: "charging",
        claimedUntil: null,
        reference: null,
        endedAt: null,
      })
      .returning("chargeId")
      .executeTakeFirstOrThrow();
    const object = intent(own, { metadata: { stoker_account: own, stoker_charge: chargeId } });
    await billing.paying.takeEvent(...signed({ id: "evt_b", type: "payment_intent.succeeded", data: { object } }));
    await billing.paying.takeEvent(...signed({ id: "evt_a", type: "payment_intent.payment_failed", data: { object } }));
    expect((await world.charges(own)).map((row) => row.state)).toEqual(["done"]);
    expect(await world.reasons(own)).toEqual([]);
    expect((await world.budget(own)).limit).toBe(21n * usd);
  });

  it("with a wrong signature, or none, are refused and change nothing", async () => {
    const { world, own, billing } = await open();
    const event = { id: "evt_x", type: "payment_intent.succeeded", data: { object: intent(own) } };
    const [body, header] = signed(event, "whsec_other");
    await expect(billing.paying.takeEvent(body, header)).rejects.toMatchObject({ code: "bad_payment_event" });
    await expect(billing.paying.takeEvent(body, "")).rejects.toMatchObject({ code: "bad_payment_event" });
    const [, good] = signed(event);
    const changed = Buffer.from(body.toString().replace("2000", "9000"));
    await expect(billing.paying.takeEvent(changed, good)).rejects.toMatchObject({ code: "bad_payment_event" });
    expect((await world.budget(own)).limit).toBe(usd);
  });

  it("that were made for nobody here are taken in and credit nobody", async () => {
    const { world, own, billing } = await open();
    const object = { ...intent(own), metadata: {} };
    await billing.paying.takeEvent(...signed({ id: "evt_y", type: "payment_intent.succeeded", data: { object } }));
    await billing.paying.takeEvent(...signed({ id: "evt_z", type: "product.created", data: { object: {} } }));
    expect((await world.budget(own)).limit).toBe(usd);
  });
});
