// Voices of accounts: every endpoint and its statuses, and what a speech request makes of a voice of one's own.
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import * as voices from "../../control-plane/assets/errors.ts";
import { DatabaseUnavailable } from "../../control-plane/service-error.ts";
import { ada, apiKey, jwtOfAda, servedModel } from "../fakes/ports.ts";
import { form, startTaskEdge, type TaskEdge, wav } from "../fakes/task-edge.ts";
import { adasVoice } from "../fakes/voices.ts";
import { check, type Row } from "./status-row.ts";
import { checkStatuses, createCustomer, type StatusRow, write } from "./status-table.ts";

const away = new DatabaseUnavailable("unreachable");
const { id } = adasVoice;
const renamed = { name: "Ada at work", description: "brisk" };
const speaks = servedModel({ task: "text-to-speech" });
const piper = servedModel({ name: "rhasspy/piper-en_US-joe-medium", task: "text-to-speech" });
const withPresets = ({ models }: { models: { models: unknown } }) => void Object.assign(models, { models: [speaks] });

const rows: readonly Row[] = [
  {
    call: "GET /v1/voices",
    status: 200,
    holds: {
      voices: [{ user_id: ada.account, voice_id: id, name: "Ada herself", description: "calm", kind: "blend" }],
    },
  },
  { call: "GET /v1/voices", status: 401, key: null, holds: { detail: { status: "invalid_api_key" } } },
  { call: "GET /v1/voices", status: 403, key: jwtOfAda, holds: { detail: { status: "scope_not_allowed" } } },
  { call: `GET /v1/voices/${id}`, status: 200, holds: { voice_id: id, created_at: 1_786_000_000 } },
  {
    call: "GET /v1/voices/af_bella",
    status: 200,
    given: withPresets,
    holds: { user_id: "preset", voice_id: "af_bella", description: "American English, female, comes with Kokoro-82M" },
  },
  {
    call: "GET /v1/voices",
    status: 200,
    given: ({ models }) => void Object.assign(models, { models: [piper] }),
    holds: {
      voices: [
        { voice_id: id },
        { user_id: "preset", voice_id: "en_US-joe-medium", name: "en_US-joe-medium", kind: "preset" },
      ],
    },
  },
  {
    call: "GET /v1/voices/en_US-joe-medium",
    status: 200,
    given: ({ models }) => void Object.assign(models, { models: [speaks, piper] }),
    holds: { user_id: "preset", description: "en_US, comes with rhasspy/piper-en_US-joe-medium" },
  },
  { call: "POST /v1/voices/en_US-joe-medium/edit", status: 400, body: renamed },
  { call: "GET /v1/voices/af_bella", status: 404, holds: { detail: { status: "voice_not_found" } } },
  { call: "GET /v1/voices/unknown", status: 404, holds: { detail: { status: "voice_not_found" } } },
  { call: `GET /v1/voices/${id}`, status: 401, key: null },
  { call: `GET /v1/voices/${id}`, status: 403, key: jwtOfAda },
  { call: `POST /v1/voices/${id}/edit`, status: 200, body: renamed, holds: { ...renamed, voice_id: id, status: "ok" } },
  {
    call: "POST /v1/voices/af_bella/edit",
    status: 400,
    body: renamed,
    holds: { detail: { status: "voice_is_preset" } },
  },
  { call: `POST /v1/voices/${id}/edit`, status: 401, key: null, body: renamed },
  { call: `POST /v1/voices/${id}/edit`, status: 403, key: jwtOfAda, body: renamed },
  { call: "POST /v1/voices/unknown/edit", status: 404, body: renamed },
  { call: `POST /v1/voices/${id}/edit`, status: 413, body: { name: "x".repeat(11 * 1024 * 1024) } },
  { call: `POST /v1/voices/${id}/edit`, status: 422, body: {}, holds: { detail: [{ loc: ["body", "name"] }] } },
  { call: `POST /v1/voices/${id}/edit`, status: 422, body: { name: "x".repeat(101) } },
  { call: `DELETE /v1/voices/${id}`, status: 200, holds: { status: "ok" } },
  { call: "DELETE /v1/voices/af_bella", status: 400, holds: { detail: { status: "voice_is_preset" } } },
  { call: `DELETE /v1/voices/${id}`, status: 401, key: null },
  { call: `DELETE /v1/voices/${id}`, status: 403, key: jwtOfAda },
  { call: "DELETE /v1/voices/unknown", status: 404 },

  // Recordings are files of a form; a text in their place is told apart.
  {
    call: "POST /v1/voices/add",
    status: 422,
    body: { name: "x", description: "", files: "said.wav" },
    holds: { detail: [{ loc: ["body", "files"] }] },
  },
  { call: "POST /v1/voices/add", status: 422, body: { name: "x", description: "" } },
  { call: "POST /v1/voices/add", status: 422, body: { description: "" }, holds: { detail: [{ type: "missing" }] } },
  { call: "POST /v1/voices/add", status: 401, key: null, body: {} },
  { call: "POST /v1/voices/add", status: 403, key: jwtOfAda, body: {} },
  { call: "POST /v1/voices/add", status: 413, body: { name: "x".repeat(11 * 1024 * 1024) } },
];

describe("voices", () => {
  it.each(rows)("$call answers $status (%#)", check);
});

describe("a voice from recordings", () => {
  let tasks: TaskEdge;
  beforeAll(async () => {
    tasks = await startTaskEdge();
  });
  beforeEach(() => {
    tasks.offer({ task: "text-to-speech" });
    tasks.edge.deps.voices.mayAdd = () => Promise.resolve();
  });
  afterAll(() => tasks.close());

  const measured = {
    kind: "blend",
    voice: "af_heart:0.8,af_sky:0.2",
    measured: { median_pitch_hz: 193.2, seconds: 2 },
    note: "A mixture",
  };
  const add = (files: Record<string, string> = { files: "one.wav" }) =>
    tasks.send("/v1/voices/add", form({ name: "Ada", description: "d", files: new Blob([wav(1)]) }, files));

  it("is the blend that the model server measured, and says so", async () => {
    tasks.json(measured);
    const answer = await add();
    const body = await answer.json();
    expect([answer.status, body.requires_verification, body.kind]).toEqual([200, false, "blend"]);
    expect(body.measured).toEqual([
      {
        model: "org/model",
        blend: measured.voice,
        features: { median_pitch_hz: 193.2, seconds: 2, note: "A mixture" },
      },
    ]);
    expect(tasks.asked().path).toBe("/v1/audio/voices");
    expect(((await tasks.askedForm()).get("files") as File).size).toBe(wav(1).length);
  });

  it("creates one voice for repeats under one idempotency key", async () => {
    tasks.json(measured);
    const before = tasks.engine.requests.length;
    const send = async () => {
      const headers = { authorization: `Bearer ${apiKey}`, "idempotency-key": "ada's voice" };
      const body = form({ name: "Ada", description: "d", files: new Blob([wav(1)]) }, { files: "one.wav" });
      return fetch(`${tasks.edge.url}/v1/voices/add`, { method: "POST", headers, body });
    };
    const [first, again] = [await send(), await send()];
    expect([first.status, again.status, again.headers.get("idempotent-replayed")]).toEqual([200, 200, "true"]);
    expect(await again.json()).toEqual(await first.json());
    expect(tasks.engine.requests.length).toBe(before + 1);
  });

  it.each([
    [voices.voiceSlotsFull(30), 409, "voice_slots_full"],
    [voices.voiceNameTaken("Ada"), 409, "name_taken"],
    [voices.badVoiceSamples("A recording is empty."), 400, "invalid_samples"],
    [away, 503, "store_away"],
  ])("is refused before anything is measured: %s", async (error, status, code) => {
    const before = tasks.engine.requests.length;
    tasks.edge.deps.voices.mayAdd = () => Promise.reject(error);
    const answer = await add();
    const body = await answer.json();
    expect([answer.status, typeof body.detail.message]).toEqual([status, "string"]);
    if (error !== away) expect(body.detail.status).toBe(code);
    expect(tasks.engine.requests.length).toBe(before);
  });

  it("waits for a speech model where none is served", async () => {
    tasks.offer({ task: "text-generation" });
    const answer = await add();
    expect([answer.status, (await answer.json()).detail.status]).toEqual([503, "voice_model_missing"]);
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
  });

  it("is refused by a model of one voice, which is told apart from others", async () => {
    const refusal = { message: "this model does not serve /v1/audio/voices", code: "unsupported_task" };
    const pieces = [JSON.stringify({ error: refusal })];
    tasks.engine.answer({ status: 400, contentType: "application/json", pieces });
    const answer = await add();
    const { detail } = await answer.json();
    expect([answer.status, detail.status]).toEqual([400, "voice_unsupported"]);
    expect(detail.message).toContain("Use a model with several");
  });

  it("is not made of an answer that names no voice", async () => {
    tasks.json({ hello: "world" });
    expect((await add()).status).toBe(502);
  });

  it.each([
    ["/v1/text-to-speech/nobody/stream", { text: "Hi" }, { detail: { status: "voice_not_found" } }],
    ["/v1/text-to-speech/nobody", { text: "Hi" }, { detail: { status: "voice_not_found" } }],
    ["/v1/audio/speech", { model: "org/model", input: "Hi", voice: "nobody" }, { error: { code: "voice_not_found" } }],
  ])("that nobody has is 404 at %s", async (path, body, told) => {
    const error = { message: "there is no voice nobody; this model has af_heart", code: "voice_not_found" };
    tasks.engine.answer({ status: 400, contentType: "application/json", pieces: [JSON.stringify({ error })] });
    const answer = await tasks.edge.post(path, body);
    expect([answer.status, await answer.json()]).toMatchObject([404, told]);
  });

  it("is spoken by its id or name wherever speech is asked for, as the blend", async () => {
    const audio = { contentType: "audio/wav", pieces: ["RIFF"] };
    tasks.engine.answer(audio);
    const said = { model: "org/model", input: "Hi" };
    for (const voice of [id, "Ada herself"]) {
      expect((await tasks.edge.post("/v1/audio/speech", { ...said, voice })).status).toBe(200);
      expect(tasks.askedJson().voice).toBe("af_heart:0.7,am_adam:0.3");
    }
    await tasks.edge.post(`/v1/text-to-speech/${id}/stream`, { text: "Hi" });
    expect(tasks.askedJson()).toMatchObject({ voice: "af_heart:0.7,am_adam:0.3", model: "as-served" });
    await tasks.edge.post("/v1/inference/org/model", { text: "Hi", voice_id: id });
    expect(tasks.askedJson().voice).toBe("af_heart:0.7,am_adam:0.3");
    await tasks.edge.post("/v1/audio/speech", { ...said, voice: "alloy" });
    expect(tasks.askedJson().voice).toBe("alloy");
  });

  it("is measured again for another model, which is then spoken to in its own blend", async () => {
    tasks.offer({ task: "text-to-speech", name: "org/other-voice" });
    tasks.json(measured);
    const kept: string[] = [];
    tasks.edge.deps.voices.keepBlend = async (_account, _voice, { model, blend }) =>
      void kept.push(`${model} ${blend}`);
    await tasks.edge.post("/v1/audio/speech", { model: "org/other-voice", input: "Hi", voice: id });
    expect(tasks.engine.requests.slice(-2).map(({ path }) => path)).toEqual(["/v1/audio/voices", "/v1/audio/speech"]);
    expect(tasks.askedJson().voice).toBe(measured.voice);
    expect(kept).toEqual([`org/other-voice ${measured.voice}`]);
  });

  it("edited by an url-encoded form, as curl and the interface have it", async () => {
    const answer = await fetch(`${tasks.edge.url}/v1/voices/${id}/edit`, {
      method: "POST",
      headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/x-www-form-urlencoded" },
      body: "name=Ada+at+work&description=a%26b",
    });
    expect([answer.status, await answer.json()]).toMatchObject([200, { name: "Ada at work", description: "a&b" }]);
  });
});

const productRows: readonly StatusRow[] = [
  {
    call: "POST /v1/voices/{voice}/edit",
    status: 409,
    given: async () => {
      const customer = await createCustomer();
      const voice = randomBytes(10).toString("hex");
      for (const [voiceId, name] of [
        [voice, "Ada"],
        [randomBytes(10).toString("hex"), renamed.name],
      ])
        await write("insert into voice (voice_id, account_id, name, description) values ($1, $2, $3, '')", [
          voiceId,
          customer.uid,
          name,
        ]);
      return { key: customer.key, voice };
    },
    body: renamed,
    holds: { detail: { status: "name_taken" } },
    headers: { "x-should-retry": "false" },
  },
];

describe("refused calls of voices", () => {
  checkStatuses(async () => ({}), productRows);
});
