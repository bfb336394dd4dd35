// The `openai` package stores, continues, reads, cancels and deletes responses of real processes.
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { query } from "../../e2e/spine/database.ts";
import { type ExternalStack, startExternalStack } from "../../fakes/external-stack.ts";

let world: ExternalStack;
let client: OpenAI;
let stranger: OpenAI;
/** Body of each chat that the engine received, oldest first. */
const chats: { readonly messages: readonly { readonly role: string; readonly content?: string }[] }[] = [];
/** While set, the engine does not answer. */
let gate: Promise<unknown> | undefined;

const clientOf = (apiKey: string, at = world.stack.url) =>
  new OpenAI({ apiKey, baseURL: `${at}/v1/openai`, maxRetries: 0 });

beforeAll(async () => {
  world = await startExternalStack({
    replicas: 2,
    controlPlaneEnv: { STOKER_WEBHOOK_CLOCKS: "0.5" },
    engine: {
      tokens: 3,
      script: (request) => {
        if (request.path.endsWith("/chat/completions")) chats.push(request.body as never);
        const text = JSON.stringify(request.body);
        return {
          until: gate,
          ...(text.includes("refuse this") ? { status: 400 } : {}),
          ...(text.includes("break after two") ? { breakAfter: 2 } : {}),
          ...(text.includes("hang after two") ? { hangAfter: 2 } : {}),
        };
      },
    },
  });
  const { stack } = world;
  const made = async (name: string) =>
    (
      await stack.call("POST", "/v1/admin/accounts", {
        email: `${name}@example.com`,
        display_name: name,
        credit_usd: 5,
      })
    ).body.api_key as string;
  client = clientOf(await made("ada"));
  stranger = clientOf(await made("bob"));
});
afterAll(() => world?.stop());

const ask = (input: OpenAI.Responses.ResponseCreateParams["input"], change: object = {}) =>
  client.responses.create({
    model: world.model,
    input,
    store: true,
    ...change,
  } as OpenAI.Responses.ResponseCreateParamsNonStreaming);

const ended = (id: string, from = client) =>
  vi.waitFor(
    async () => {
      const response = await from.responses.retrieve(id);
      expect(["queued", "in_progress"]).not.toContain(response.status);
      return response;
    },
    { timeout: 60_000, interval: 100 },
  );

const notFound = { status: 404, code: "response_not_found" };

describe("a stored response", () => {
  it("is read as it was sent, and continued", async () => {
    const first = await ask("My name is Ada.", { metadata: { a: "b" }, instructions: "Be kind." });
    expect(first).toMatchObject({ store: true, status: "completed" });
    expect(await client.responses.retrieve(first.id)).toEqual(first);
    const second = await ask("What is my name?", { previous_response_id: first.id });
    expect(second.previous_response_id).toBe(first.id);
    const third = await ask("Sure?", { previous_response_id: second.id });
    const said = first.output_text;
    expect(chats.at(-1)?.messages).toEqual([
      { role: "user", content: "My name is Ada." },
      { role: "assistant", content: said },
      { role: "user", content: "What is my name?" },
      { role: "assistant", content: said },
      { role: "user", content: "Sure?" },
    ]);
    await client.responses.delete(first.id);
    await expect(client.responses.retrieve(first.id)).rejects.toMatchObject(notFound);
    await expect(ask("And now?", { previous_response_id: third.id })).rejects.toMatchObject({
      status: 400,
      code: "previous_response_not_found",
    });
  });

  it("is stored before its stream ends", async () => {
    const stream = client.responses.stream({ model: world.model, input: "Hi", store: true });
    const final = await stream.finalResponse();
    const { output_parsed: _, ...response } = (await client.responses.retrieve(final.id)) as never as Record<
      string,
      unknown
    >;
    expect(response).toMatchObject({ id: final.id, status: "completed", output_text: final.output_text, store: true });
  });

  it("keeps what was delivered of a stream that broke, or that its client left", async () => {
    const begin = async (input: string) => {
      const stream = await client.responses.create({ model: world.model, input, store: true, stream: true });
      const events: OpenAI.Responses.ResponseStreamEvent[] = [];
      return { stream, events };
    };
    const broken = await begin("break after two");
    for await (const event of broken.stream) broken.events.push(event);
    const last = broken.events.at(-1) as OpenAI.Responses.ResponseFailedEvent;
    expect(last).toMatchObject({ type: "response.failed", response: { status: "failed", store: true } });
    const kept = await client.responses.retrieve(last.response.id);
    expect(kept).toMatchObject({ status: "failed", error: { code: "server_error" }, output_text: " tok tok" });
    expect(kept.output).toEqual(last.response.output);

    const left = await begin("hang after two");
    let id = "";
    let text = "";
    for await (const event of left.stream) {
      if (event.type === "response.created") id = event.response.id;
      if (event.type === "response.output_text.delta") text += event.delta;
      if (text === " tok tok") break;
    }
    left.stream.controller.abort();
    const found = await vi.waitFor(() => client.responses.retrieve(id), { timeout: 20_000, interval: 100 });
    expect(found).toMatchObject({ status: "cancelled", output_text: " tok tok" });
  });

  it("gives its items to a reference", async () => {
    const first = await ask("One");
    const id = first.output[0]?.id as string;
    await ask(
      [
        { type: "item_reference", id },
        { role: "user", content: "Two" },
      ],
      { store: false },
    );
    expect(chats.at(-1)?.messages[0]).toEqual({ role: "assistant", content: first.output_text });
    const unknown = [{ type: "item_reference" as const, id: id.replace(/_0$/, "_7") }];
    await expect(ask(unknown)).rejects.toMatchObject({ status: 400, code: "item_reference_not_found" });
  });

  it("lists its input items in pages", async () => {
    const input = ["a", "b", "c"].map((content) => ({ role: "user" as const, content }));
    const { id } = await ask(input);
    const all = [];
    for await (const item of client.responses.inputItems.list(id, { limit: 2, order: "asc" })) all.push(item);
    expect(all).toMatchObject(input);
    const [newest] = (await client.responses.inputItems.list(id, { limit: 1 })).data;
    expect(newest).toMatchObject({ content: "c" });
    await expect(client.responses.inputItems.list(id, { after: "nothing" })).rejects.toMatchObject({ status: 400 });
  });

  it("is unknown to another account, with the same reply as one that never existed", async () => {
    const { id } = await ask("secret");
    for (const use of [
      (name: string) => stranger.responses.retrieve(name),
      (name: string) => stranger.responses.delete(name),
      (name: string) => stranger.responses.cancel(name),
      (name: string) => stranger.responses.inputItems.list(name),
    ]) {
      await expect(use(id)).rejects.toMatchObject(notFound);
      await expect(use("resp_unknown")).rejects.toMatchObject(notFound);
    }
    const body = { model: world.model, input: "x" };
    await expect(stranger.responses.create({ ...body, previous_response_id: id })).rejects.toMatchObject({
      status: 400,
      code: "previous_response_not_found",
    });
  });

  it("is in the database only as the account's data key sealed it", async () => {
    const { id } = await ask("a canary in the input", { metadata: { note: "a canary in the metadata" } });
    const rows = await query<{ row: string }>(
      world.stack.databaseUrl,
      "select to_jsonb(r)::text || encode(sealed, 'escape') as row from stored_response r where response_id = $1",
      [id],
    );
    expect(rows).toHaveLength(1);
    expect(rows[0]?.row).toContain(id);
    expect(rows[0]?.row).not.toMatch(/canary|tok/);
  });

  it("is not kept unless it was asked for", async () => {
    const { id } = await ask("Hi", { store: undefined });
    await expect(client.responses.retrieve(id)).rejects.toMatchObject(notFound);
    await expect(client.responses.retrieve(id, { stream: true })).rejects.toMatchObject({ status: 400 });
  });

  it("is replayed for an idempotency key, and stored once", async () => {
    const once = () =>
      client.responses.create(
        { model: world.model, input: "Hi", store: true },
        { headers: { "Idempotency-Key": "one" } },
      );
    const first = await once();
    const second = await once();
    expect(second.id).toBe(first.id);
  });
});

describe("a response in the background", () => {
  it("is queued, runs, and is billed once", async () => {
    const start = Date.now();
    const queued = await ask("Hi", { background: true });
    expect(queued).toMatchObject({ status: "queued", background: true, output: [] });
    const response = await ended(queued.id);
    expect(response).toMatchObject({ status: "completed", output_text: " tok tok tok", background: true });
    expect(response.created_at * 1000).toBeGreaterThan(start - 2_000);
    const requestId = queued.id.replace("resp_", "");
    await vi.waitFor(async () => {
      const usage = await query<{ output: string; charge: string }>(
        world.stack.databaseUrl,
        "select output_tokens as output, charge from usage where request_id = $1",
        [requestId],
      );
      expect(usage).toEqual([{ output: "3", charge: "60000" }]);
    });
    const next = await ask("More", { previous_response_id: queued.id });
    expect(chats.at(-1)?.messages).toHaveLength(3);
    expect(next.status).toBe("completed");
  });

  it("stops when it is cancelled, also by another control plane", async () => {
    const closed = Promise.withResolvers<void>();
    gate = closed.promise;
    const { id } = await ask("Hi", { background: true });
    await vi.waitFor(async () => expect((await client.responses.retrieve(id)).status).toBe("in_progress"), {
      timeout: 20_000,
    });
    const other = clientOf(client.apiKey as string, world.stack.controlPlanes[1]?.url);
    await expect(ask("x", { previous_response_id: id })).rejects.toMatchObject({
      code: "previous_response_unfinished",
    });
    expect(await other.responses.cancel(id)).toMatchObject({ id, status: "cancelled" });
    expect(await client.responses.cancel(id)).toMatchObject({ status: "cancelled" });
    await vi.waitFor(() => expect(world.engine.log.at(-1)?.end).toBe("aborted"), { timeout: 20_000 });
    gate = undefined;
    closed.resolve();
    expect((await client.responses.retrieve(id)).status).toBe("cancelled");
  });

  it("fails with the engine's reason", async () => {
    const { id } = await ask("refuse this", { background: true });
    const { error, status } = await ended(id);
    expect({ error, status }).toEqual({
      status: "failed",
      error: { code: "invalid_prompt", message: "scripted failure 400" },
    });
  });

  it("cannot be cancelled when it runs in the foreground", async () => {
    const { id } = await ask("Hi");
    await expect(client.responses.cancel(id)).rejects.toMatchObject({ status: 400, code: "response_not_cancellable" });
  });

  it("survives the end of the control plane that runs it", async () => {
    const closed = Promise.withResolvers<void>();
    gate = closed.promise;
    const { id } = await ask("Hi", { background: true });
    const runner = await vi.waitFor(
      async () => {
        expect((await client.responses.retrieve(id)).status).toBe("in_progress");
        const [row] = await query<{ claims: number }>(
          world.stack.databaseUrl,
          "select claims from stored_response where response_id = $1",
          [id],
        );
        return row?.claims;
      },
      { timeout: 20_000 },
    );
    expect(runner).toBe(1);
    const [first, second] = world.stack.controlPlanes;
    // Which of both runs it is not known: kill them one after the other, and start them again.
    await first?.kill9();
    await second?.kill9();
    first?.start();
    second?.start();
    gate = undefined;
    closed.resolve();
    const response = await ended(id, clientOf(client.apiKey as string));
    expect(response).toMatchObject({ status: "completed", output_text: " tok tok tok" });
  });
});
