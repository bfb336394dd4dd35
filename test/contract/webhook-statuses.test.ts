import { describe, expect, it } from "vitest";
import { idempotencyKeyInUse } from "../../control-plane/accounts/token-errors.ts";
import { createHttp } from "../../control-plane/http/core/create-http.ts";
import {
  deliveryEmptied,
  deliveryPending,
  webhookAnswersFull,
  webhookQueueFull,
} from "../../control-plane/webhooks/errors.ts";
import { nano } from "../../proto/money.ts";
import { ada, adminKey, apiKey, fakePorts, jwtOfAda, servedModel } from "../fakes/ports.ts";
import { deliveryOfAda, type FakeWebhooks } from "../fakes/webhooks.ts";
import { check, type Row, refuse } from "./status-row.ts";

const url = "https://example.com/hook";
const infer = "POST /v1/inference/org/model" as const;
const body = { input: "Hello", max_new_tokens: 4, webhook: url };
const one = `/v1/webhooks/deliveries/${deliveryOfAda.webhookId}` as const;
const unknown = "/v1/webhooks/deliveries/msg_00000000000000000000000000" as const;
const results = `/v1/webhooks/results/${deliveryOfAda.requestId}?expires=1` as const;

const guarded = [
  {
    call: "GET /v1/webhooks/secret",
    verb: "secret",
    holds: { secret: "whsec_AAAA", previous_secret_expires_at: null },
  },
  {
    call: "POST /v1/webhooks/secret/rotate",
    verb: "rotate",
    holds: { secret: "whsec_AAAA", previous_secret_expires_at: 1_786_000_086_400 },
  },
  {
    call: "GET /v1/webhooks/deliveries",
    verb: "deliveries",
    holds: { deliveries: [{ id: deliveryOfAda.webhookId, state: "delivered", last_status: 204 }], next_cursor: null },
  },
  {
    call: `GET ${one}`,
    verb: "delivery",
    holds: { id: deliveryOfAda.webhookId, history: [{ number: 1, status: 204 }] },
  },
  { call: `POST ${one}/replay`, verb: "replay", holds: { id: deliveryOfAda.webhookId } },
] as const;

const rows: readonly Row[] = [
  ...guarded.flatMap(({ call, holds }): Row[] => [
    { call, status: 200, holds },
    { call, key: null, status: 401 },
    { call, key: jwtOfAda, status: 403, holds: { code: "scope_not_allowed" } },
  ]),
  { call: `GET ${unknown}`, status: 404, holds: { code: "webhook_delivery_not_found" } },
  { call: `POST ${unknown}/replay`, status: 404, holds: { code: "webhook_delivery_not_found" } },
  {
    call: `POST ${one}/replay`,
    status: 409,
    given: refuse("webhooks", "replay")(deliveryPending()),
    holds: { code: "webhook_delivery_pending" },
  },
  {
    call: `POST ${one}/replay`,
    status: 404,
    given: refuse("webhooks", "replay")(deliveryEmptied()),
    holds: { code: "webhook_results_not_found" },
  },
  // The query may hold a secret.
  {
    call: "GET /v1/webhooks/deliveries",
    status: 200,
    key: adminKey,
    send: { "x-stoker-act-as": ada.account },
    given: ({ deps }) => {
      deps.webhooks.deliveries = async () => ({
        deliveries: [{ ...deliveryOfAda, url: "https://example.com/hook?token=secret" }],
        nextCursor: null,
      });
    },
    holds: { deliveries: [{ url: "https://example.com/hook" }] },
  },
  { call: "GET /v1/webhooks/deliveries?limit=0", status: 422, holds: { detail: [{ loc: ["query", "limit"] }] } },
  { call: `GET ${results}&sig=good`, key: null, status: 200, holds: { results: [] } },
  { call: `GET ${results}&sig=bad`, key: null, status: 404, holds: { code: "webhook_results_not_found" } },
  { call: `GET ${results}`, key: null, status: 422, holds: { detail: [{ loc: ["query", "sig"] }] } },
  {
    call: infer,
    body,
    status: 200,
    holds: {
      inference_status: { status: "queued", runtime_ms: 0, cost: 0, tokens_generated: null, tokens_input: null },
    },
  },
  { call: infer, body, status: 200, headers: { "x-ratelimit-limit-requests": "200" } },
  { call: `POST /v1/inference/deploy/${servedModel().deployId}`, body, status: 200 },
  { call: infer, body, key: null, status: 401 },
  { call: infer, body: { ...body, stream: true }, status: 422, holds: { code: "webhook_with_stream" } },
  {
    call: infer,
    body: { ...body, webhook: "no url" },
    status: 422,
    holds: { code: "webhook_invalid", detail: [{ loc: ["body", "webhook"] }] },
  },
  { call: infer, body: { ...body, webhook: "https://127.0.0.1/" }, status: 400, holds: { code: "webhook_refused" } },
  { call: infer, body: { ...body, webhook: "http://example.com/" }, status: 400, holds: { code: "webhook_refused" } },
  { call: infer, body: { ...body, webhook: "https://inside.example.com/" }, status: 400 },
  { call: infer, body: { webhook: url }, status: 422, holds: { detail: [{ loc: ["body", "input"] }] } },
  { call: "POST /v1/inference/no/model", body, status: 404, holds: { code: "model_not_found" } },
  { call: infer, body, key: jwtOfAda, status: 403, holds: { code: "model_not_allowed" } },
  {
    call: infer,
    body,
    status: 402,
    given: ({ budgets }) => {
      budgets.available = nano(0n);
    },
    holds: { code: "insufficient_quota" },
  },
  {
    call: infer,
    body,
    status: 429,
    given: ({ rates }) =>
      rates.setOwnLimits(new Map([[ada.account, { concurrent: 0, tokensPerMinute: 0, weight: 1 }]])),
  },
  {
    call: infer,
    body,
    status: 429,
    given: refuse("webhooks", "accept")(webhookQueueFull({ count: 5_000, bytes: 1024 ** 3 })),
    holds: { code: "webhook_queue_full" },
    headers: { "retry-after": "30" },
  },
  {
    call: infer,
    body,
    status: 429,
    given: refuse("webhooks", "accept")(webhookAnswersFull()),
    holds: { code: "webhook_answers_full" },
  },
  {
    call: infer,
    body,
    send: { "idempotency-key": "same" },
    status: 409,
    given: refuse("idempotency", "begin")(idempotencyKeyInUse(1)),
    headers: { "retry-after": "1", "x-should-retry": "false" },
  },
];

describe("webhooks", () => {
  it.each(rows.map((row, i) => [`${i} ${row.call} answers ${row.status}`, row] as const))("%s", (_, row) => check(row));

  it("runs a repeat under one idempotency key once, and refuses another body under it", async () => {
    const ports = fakePorts();
    const app = await createHttp(ports.deps);
    const send = (payload: object) =>
      app.inject({
        method: "POST",
        url: "/v1/inference/org/model",
        headers: { authorization: `Bearer ${apiKey}`, "idempotency-key": "same" },
        payload,
      });
    const [first, again, other] = [await send(body), await send(body), await send({ ...body, input: "Another" })];
    await app.close();
    expect([first.statusCode, again.statusCode, other.statusCode]).toEqual([200, 200, 422]);
    expect(again.json()).toEqual(first.json());
    expect(ports.deps.webhooks).toMatchObject({
      accepted: [{ requestId: first.json().request_id, model: "org/model" }],
    });
    expect(ports.budgets.holds.map(({ end }) => end)).toEqual([{ how: "released" }]);
  });

  it("recognises a repeated form with another boundary, and refuses another form", async () => {
    const ports = fakePorts();
    const app = await createHttp(ports.deps);
    ports.models.models = [servedModel({ task: "image-classification" })];
    const send = async (picture: string) => {
      const form = new FormData();
      form.append("image", new Blob([picture], { type: "image/png" }), "a.png");
      form.append("webhook", url);
      const sent = new Request("http://x", { method: "POST", body: form });
      const type = sent.headers.get("content-type") as string;
      const headers = { authorization: `Bearer ${apiKey}`, "content-type": type, "idempotency-key": "once" };
      const payload = Buffer.from(await sent.arrayBuffer());
      const answer = await app.inject({ method: "POST", url: "/v1/inference/org/model", headers, payload });
      return { type, status: answer.statusCode, replayed: answer.headers["idempotent-replayed"] };
    };
    const [first, again, other] = [await send("png"), await send("png"), await send("gif")];
    await app.close();
    expect(again.type).not.toBe(first.type);
    expect([first, again, other].map(({ status, replayed }) => [status, replayed])).toEqual([
      [200, undefined],
      [200, "true"],
      [422, undefined],
    ]);
    expect((ports.deps.webhooks as FakeWebhooks).accepted).toHaveLength(1);
  });

  it("stores the body without the webhook, with files as data URIs and long seeds unchanged", async () => {
    const ports = fakePorts();
    const app = await createHttp(ports.deps);
    const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
    const payload = `{"input":"Hello","seed":18446744073709551615,"webhook":"${url}"}`;
    const text = await app.inject({ method: "POST", url: "/v1/inference/org/model", headers, payload });
    ports.models.models = [servedModel({ task: "image-classification" })];
    const form = new FormData();
    form.append("image", new Blob(["png"], { type: "image/png" }), "a.png");
    form.append("webhook", url);
    const sent = new Request("http://x", { method: "POST", body: form });
    const picture = await app.inject({
      method: "POST",
      url: "/v1/inference/org/model",
      headers: { ...headers, "content-type": sent.headers.get("content-type") as string },
      payload: Buffer.from(await sent.arrayBuffer()),
    });
    await app.close();
    expect([text.statusCode, picture.statusCode], picture.body).toEqual([200, 200]);
    const kept = (ports.deps.webhooks as FakeWebhooks).accepted.map(({ body: bytes }) => bytes.toString());
    expect(kept).toEqual([
      '{"input":"Hello","seed":18446744073709551615}',
      `{"image":"data:image/png;base64,${Buffer.from("png").toString("base64")}"}`,
    ]);
  });
});
