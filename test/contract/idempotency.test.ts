import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createHttp } from "../../control-plane/http/core/create-http.ts";
import { DatabaseUnavailable } from "../../control-plane/service-error.ts";
import { agentId, backupId } from "../fakes/agent-instance-ports.ts";
import { adminKey, apiKey, deployment, type FakePorts, fakePorts } from "../fakes/ports.ts";

let ports: FakePorts;
let app: Awaited<ReturnType<typeof createHttp>>;
beforeEach(async () => {
  ports = fakePorts();
  app = await createHttp(ports.deps);
});
afterEach(() => app.close());

const llm = { model_name: "ada/my-llm", gpu: "H100-80GB" };
const post = (path: string, body: unknown, key: string, secret = apiKey) =>
  app.inject({
    method: "POST",
    url: path,
    headers: { authorization: `Bearer ${secret}`, "idempotency-key": key, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });

/** Replaces a verb by one that counts, and answers or throws what it is given in turn; the last one again and again. */
function verb<T extends object>(part: T, name: keyof T, outcomes: readonly unknown[]) {
  const calls = { count: 0 };
  part[name] = (async () => {
    const outcome = outcomes[Math.min(calls.count++, outcomes.length - 1)];
    if (outcome instanceof Error) throw outcome;
    return outcome;
  }) as T[keyof T];
  return calls;
}

const storeUnavailable = new DatabaseUnavailable("unreachable");

describe.each([
  ["/deploy/llm", llm],
  ["/v1/api-tokens", { name: "ci" }],
  ["/v1/scoped-jwt", { api_key_name: "auto" }],
  ["/v1/ssh_keys", { name: "laptop", key: "ssh-ed25519 AAAA" }],
  ["/payment/funds", { amount: 2000 }],
  ["/v1/me/rate_limit/request", { rate_limit: 400, reason: "evals" }],
  ["/v1/me/gpu_pool/request", { reason: "launch", requested_max: { "H100-80GB": 16 } }],
  ["/v1/me/gpu_limit/request", { gpu_type: "H100-80GB", requested_limit: 16, reason: "launch" }],
  [`/v1/agent/${agentId}/backup`, {}],
  [`/v1/agent/${agentId}/backups/${backupId}/restore`, {}],
])("POST %s with an Idempotency-Key", (path, body) => {
  it("repeated gives the first answer again, marked, with the same status and secrecy", async () => {
    const first = await post(path, body, "k1");
    const again = await post(path, body, "k1");
    expect([first.statusCode, again.statusCode]).toEqual([200, 200]);
    expect(again.body).toBe(first.body);
    expect(again.headers["cache-control"]).toBe(first.headers["cache-control"]);
    expect(again.headers["idempotent-replayed"]).toBe("true");
    expect(first.headers["idempotent-replayed"]).toBeUndefined();
    expect(again.headers["x-stoker-request-id"]).toMatch(/^[A-Za-z0-9]{24}$/);
    expect(again.headers["x-stoker-request-id"]).not.toBe(first.headers["x-stoker-request-id"]);
  });

  it("of another request is refused, naming the header", async () => {
    await post(path, body, "k1");
    const other = await post(path, { ...body, other: 1 }, "k1");
    expect(other.statusCode).toBe(422);
    expect(other.json()).toMatchObject({
      code: "idempotency_key_reused",
      detail: [{ loc: ["header", "idempotency-key"] }],
    });
  });

  it.each(["", " ".repeat(256), "ü"])("spelled %j is refused", async (key) => {
    expect((await post(path, body, key)).statusCode).toBe(422);
  });
});

describe("an Idempotency-Key", () => {
  it("runs the request once", async () => {
    const calls = verb(ports.deps.deployments as object as { createLlm: unknown }, "createLlm", [deployment()]);
    for (let i = 0; i < 3; i++) await post("/deploy/llm", llm, "k1");
    expect(calls.count).toBe(1);
    await post("/deploy/llm", llm, "k2");
    expect(calls.count).toBe(2);
  });

  it("runs once what spends or asks the operator, also where two requests differ in nothing but the key", async () => {
    const { deps } = ports;
    const calls = [
      verb(deps.sshKeys, "add", [{ id: "1", name: "n", key: "k", fingerprint: "f", createdAtMs: 1 }]),
      verb(deps.paying, "addFunds", [null]),
      verb(deps.quotas, "requestRates", [undefined]),
      verb(deps.agentBackups, "backup", ["bk-2"]),
    ];
    const wanted: readonly (readonly [string, unknown])[] = [
      ["/v1/ssh_keys", { name: "laptop", key: "ssh-ed25519 AAAA" }],
      ["/payment/funds", { amount: 2000 }],
      ["/v1/me/rate_limit/request", { rate_limit: 400, reason: "evals" }],
      [`/v1/agent/${agentId}/backup`, undefined],
    ];
    for (const [path, body] of wanted)
      for (const key of ["k1", "k1", "k2"]) expect((await post(path, body, key)).statusCode, path).toBe(200);
    expect(calls.map(({ count }) => count)).toEqual([2, 2, 2, 2]);
  });

  it("of one account says nothing to another, nor one route's to another", async () => {
    const calls = verb(ports.deps.deployments as object as { createLlm: unknown }, "createLlm", [deployment()]);
    await post("/deploy/llm", llm, "k1");
    await post("/deploy/llm", llm, "k1", adminKey);
    expect(calls.count).toBe(2);
    expect((await post("/v1/api-tokens", { name: "ci" }, "k1")).statusCode).toBe(200);
  });

  it("keeps a refusal that the request itself earned", async () => {
    const { deploymentNameTaken } = await import("../../control-plane/deployments/errors.ts");
    const calls = verb(ports.deps.deployments as object as { createLlm: unknown }, "createLlm", [
      deploymentNameTaken("x"),
    ]);
    const first = await post("/deploy/llm", llm, "k1");
    const again = await post("/deploy/llm", llm, "k1");
    expect(again.statusCode).toBe(409);
    expect(again.body).toBe(first.body);
    expect(again.headers["x-should-retry"]).toBe("false");
    expect(calls.count).toBe(1);
  });

  it("is free again after a failure of ours", async () => {
    const calls = verb(ports.deps.deployments as object as { createLlm: unknown }, "createLlm", [
      storeUnavailable,
      new Error("a bug"),
      deployment(),
    ]);
    const statuses = [];
    for (let i = 0; i < 4; i++) statuses.push((await post("/deploy/llm", llm, "k1")).statusCode);
    expect(statuses).toEqual([503, 500, 200, 200]);
    expect(calls.count).toBe(3);
  });

  it("whose request still runs is in use: 409 with Retry-After", async () => {
    const gate = Promise.withResolvers<unknown>();
    const calls = verb(ports.deps.deployments as object as { createLlm: unknown }, "createLlm", [gate.promise]);
    // A call of inject begins when somebody waits for it.
    const running = Promise.resolve(post("/deploy/llm", llm, "k1"));
    await vi.waitFor(() => expect(calls.count).toBe(1), { timeout: 20_000 });
    const second = await post("/deploy/llm", llm, "k1");
    expect(second.statusCode).toBe(409);
    expect(second.json().code).toBe("idempotency_key_in_use");
    expect(Number(second.headers["retry-after"])).toBeGreaterThan(0);
    gate.resolve(deployment());
    expect((await running).statusCode).toBe(200);
  });
});

describe("a POST without a body", () => {
  it.each(["/deploy/llm", "/v1/api-tokens", "/v1/completions"])("to %s is told that one is required", async (url) => {
    const answer = await app.inject({ method: "POST", url, headers: { authorization: `Bearer ${apiKey}` } });
    expect(answer.statusCode).toBe(422);
    expect(answer.body).toContain("A request body is required");
    expect(answer.json().detail).toEqual([{ loc: ["body"], msg: expect.any(String), type: "missing" }]);
  });
});

it.each([
  ["/v1/batches", { input_file_id: "file-1", endpoint: "/v1/chat/completions", completion_window: "24h" }, true],
  [
    "/v1/containers",
    { name: "box", gpu_config: "1xH100-80GB", container_image: "ubuntu", cloud_init_user_data: "#!/bin/sh" },
    true,
  ],
  ["/v1/agents", { name: "box", agent_type_id: "echo" }, true],
  ["/v1/inference/m", { input: "Hi", webhook: "https://hooks.example/x" }, true],
  ["/v1/api-tokens", { name: "ci" }, false],
])("POST %s: whether a repeat may run again when its first holder has died", async (path, body, isPaid) => {
  const asked: boolean[] = [];
  ports.deps.idempotency.begin = async (request) => {
    asked.push(request.isPaid);
    return { kept: { status: 200, headers: [], body: "{}" } };
  };
  expect((await post(path, body, "k1")).statusCode).toBe(200);
  expect(asked).toEqual([isPaid]);
});
