// The steps of drive_openai.py with the official OpenAI client of npm: what came of each.
import { crc32, deflateSync } from "node:zlib";
import OpenAI, { NotFoundError, toFile } from "openai";
import { vi } from "vitest";
import { wav } from "../../fakes/task-edge.ts";

interface Server {
  readonly url: string;
  readonly apiKey: string;
  /** What holds chats that say "hold npm" until it is asked for /release/npm. */
  readonly engine: string;
}
type Names = Readonly<Record<"CHAT" | "VECTORS" | "SPEECH" | "HEARING" | "PICTURES", string>>;

const patient = { timeout: 60_000, interval: 100 };

export async function driveOpenai(server: Server, names: Names): Promise<Record<string, unknown>> {
  const client = new OpenAI({
    baseURL: `${server.url}/v1/openai`,
    apiKey: server.apiKey,
    maxRetries: 0,
    timeout: 60_000,
  });
  return {
    ...(await texts(client, names)),
    ...(await media(client, names)),
    ...(await batches(client, names, server)),
  };
}

async function texts(client: OpenAI, { CHAT, VECTORS }: Names) {
  const messages = [{ role: "user" as const, content: "What is the answer?" }];
  const answer = await client.chat.completions.create({ model: CHAT, messages, max_tokens: 16 });
  let text = "";
  let tokens = 0;
  const streamed = { model: CHAT, messages, max_tokens: 16, stream: true as const };
  for await (const chunk of await client.chat.completions.create({
    ...streamed,
    stream_options: { include_usage: true },
  })) {
    text += chunk.choices.map((choice) => choice.delta.content ?? "").join("");
    tokens = chunk.usage?.completion_tokens ?? tokens;
  }

  const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
  const called = await client.chat.completions.create({
    model: CHAT,
    messages,
    tools: [{ type: "function", function: { name: "weather", description: "The weather of a city", parameters } }],
    tool_choice: "auto",
  });
  const [choice] = called.choices;
  const call = choice?.message.tool_calls?.[0];
  if (call?.type !== "function") throw new Error(`no tool was called: ${JSON.stringify(called)}`);

  const once = { model: CHAT, input: "What is the answer?", max_output_tokens: 16 };
  const response = await client.responses.create({ ...once, store: true });
  let said = "";
  const events = client.responses.stream(once).on("response.output_text.delta", ({ delta }) => {
    said += delta;
  });
  const final = await events.finalResponse();
  const after = await client.responses.create({ ...once, previous_response_id: response.id });
  const read = await client.responses.retrieve(response.id);
  const items = (await client.responses.inputItems.list(response.id)).data;
  await client.responses.delete(response.id);

  const properties = { city: { type: "string" }, people: { type: "integer" } };
  const schema = { type: "object", properties, required: ["city", "people"], additionalProperties: false };
  const parsed = await client.chat.completions.parse({
    model: CHAT,
    messages,
    response_format: { type: "json_schema", json_schema: { name: "place", strict: true, schema } },
  });
  const place = parsed.choices[0]?.message.parsed as { readonly city: string; readonly people: number } | null;

  const models: string[] = [];
  for await (const model of client.models.list()) models.push(model.id);
  const vectors = await client.embeddings.create({ model: VECTORS, input: ["one", "two"] });
  return {
    chat: [answer.choices[0]?.message.content, answer.usage?.completion_tokens],
    stream: [text, tokens],
    response: [response.output_text, response.status, response.usage?.output_tokens],
    responses: [said, final.output_text],
    continued: after.previous_response_id === response.id,
    read: [read.output_text, items.map(({ type }) => type)],
    tool: [call.function.name, JSON.parse(call.function.arguments), choice?.finish_reason],
    schema: [place?.city, place?.people],
    completion: (await client.completions.create({ model: CHAT, prompt: "The answer", max_tokens: 8 })).choices[0]
      ?.text,
    models: models.sort(),
    vectors: vectors.data.map((one) => one.embedding),
    unknown: await refused(() => client.chat.completions.create({ model: "nobody/nothing", messages })),
  };
}

async function media(client: OpenAI, { SPEECH, HEARING, PICTURES }: Names) {
  const sound = () => toFile(wav(1), "a.wav", { type: "audio/wav" });
  const image = () => toFile(greyPng(64), "a.png", { type: "image/png" });
  const speech = { model: SPEECH, voice: "af_heart", input: "Hello", response_format: "wav" } as const;
  const size = "64x64" as "auto";
  const [painted, edited, varied] = [
    await client.images.generate({ model: PICTURES, prompt: "a cat", size }),
    await client.images.edit({ model: PICTURES, image: await image(), prompt: "a hat", size }),
    await client.images.createVariation({ model: PICTURES, image: await image(), size: size as "256x256" }),
  ];
  return {
    speech: await (await client.audio.speech.create(speech)).text(),
    transcription: (await client.audio.transcriptions.create({ model: HEARING, file: await sound() })).text,
    translation: (await client.audio.translations.create({ model: HEARING, file: await sound() })).text,
    picture: painted.data?.[0]?.b64_json,
    edited: edited.data?.[0]?.b64_json,
    varied: varied.data?.[0]?.b64_json,
  };
}

async function batches(client: OpenAI, { CHAT }: Names, { engine }: Server) {
  const line = (number: number, content: string, change: object = {}) =>
    JSON.stringify({
      custom_id: `c${number}`,
      method: "POST",
      url: "/v1/chat/completions",
      body: { model: CHAT, messages: [{ role: "user", content }], max_tokens: 8, ...change },
    });
  const upload = async (lines: readonly string[]) =>
    client.files.create({ file: await toFile(Buffer.from(lines.join("\n")), "requests.jsonl"), purpose: "batch" });
  const begin = (file: OpenAI.FileObject) =>
    client.batches.create({
      input_file_id: file.id,
      endpoint: "/v1/chat/completions",
      completion_window: "24h",
      metadata: { of: "tests" },
    });
  const until = (id: string, isThere: (status: string) => boolean) =>
    vi.waitFor(async () => {
      const batch = await client.batches.retrieve(id);
      if (!isThere(batch.status)) throw new Error(`the batch is ${batch.status}`);
      return batch;
    }, patient);
  // A batch that was cancelled before any line ended has no file of answers: null, which the client's types call undefined.
  const linesOf = async (id: string | null | undefined) =>
    !id
      ? []
      : (await (await client.files.content(id)).text())
          .trimEnd()
          .split("\n")
          .map((one) => JSON.parse(one));

  const file = await upload([line(1, "one"), line(2, "two", { temperature: 9 }), line(3, "three")]);
  const content = await (await client.files.content(file.id)).text();
  const done = await until((await begin(file)).id, (status) => ["completed", "failed", "expired"].includes(status));
  const { total, completed, failed } = done.request_counts ?? {};
  const found = {
    file: [file.filename, file.purpose, (await client.files.retrieve(file.id)).bytes === file.bytes],
    content: content.split("\n")[0] === line(1, "one"),
    batch: [done.status, total, completed, failed, done.metadata],
    output: (await linesOf(done.output_file_id)).map((one) => [
      one.custom_id,
      one.response.body.choices[0].message.content,
    ]),
    errors: (await linesOf(done.error_file_id)).map((one) => [one.custom_id, one.response.status_code]),
  };

  // Cancelled while its first lines are held: every line has an answer, or is told that it was not begun.
  const slow = await upload(Array.from({ length: 200 }, (_, number) => line(number, "hold npm")));
  const { id } = await begin(slow);
  await until(id, (status) => status === "in_progress");
  const cancelling = (await client.batches.cancel(id)).status;
  await (await fetch(`${engine}/release/npm`)).text();
  const cancelled = await until(id, (status) => status !== "cancelling");
  const missed = await linesOf(cancelled.error_file_id);
  const ran = await linesOf(cancelled.output_file_id);
  const listed: string[] = [];
  for await (const one of client.batches.list({ limit: 1 })) listed.push(one.id);
  const files: string[] = [];
  for await (const one of client.files.list({ purpose: "batch", limit: 1 }))
    if (one.id === file.id || one.id === slow.id) files.push(one.filename);
  return {
    ...found,
    cancelling,
    cancelled: [
      cancelled.status,
      ran.length + missed.length,
      missed.every((one) => one.error.code === "batch_cancelled"),
    ],
    batches: listed[0] === id && listed[1] === done.id,
    files: files.sort(),
    deleted: [(await client.files.delete(file.id)).deleted, (await client.files.delete(slow.id)).deleted],
    gone: (await refused(() => client.files.retrieve(file.id)))[0],
  };
}

async function refused(ask: () => Promise<unknown>): Promise<unknown[]> {
  try {
    return [200, await ask()];
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
    return [error.status, error.code];
  }
}

/** Square, of 8 bits. */
function greyPng(side: number): Buffer<ArrayBuffer> {
  const part = (name: string, data: Buffer) => {
    const named = Buffer.concat([Buffer.from(name), data]);
    const frame = Buffer.alloc(8);
    frame.writeUInt32BE(data.length, 0);
    frame.writeUInt32BE(crc32(named), 4);
    return Buffer.concat([frame.subarray(0, 4), named, frame.subarray(4)]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(side, 0);
  head.writeUInt32BE(side, 4);
  head.writeUInt8(8, 8);
  const rows = Buffer.concat(
    Array.from({ length: side }, () => Buffer.concat([Buffer.from([0]), Buffer.alloc(side, 128)])),
  );
  const signature = Buffer.from("89504e470d0a1a0a", "hex");
  return Buffer.concat([signature, part("IHDR", head), part("IDAT", deflateSync(rows)), part("IEND", Buffer.alloc(0))]);
}
