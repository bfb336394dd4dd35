// Requests that try to stop a control plane: each is cheap to send and was, or could be, expensive to read. For the security tests
// and for `npm run bench -- hostile`.

export interface HostileRequest {
  readonly name: string;
  readonly path: string;
  /** Sent with an API key. */
  readonly isKeyed: boolean;
  readonly body: Buffer;
  readonly headers?: Readonly<Record<string, string>>;
  /** Statuses that a working edge answers. */
  readonly statuses: readonly number[];
}

const mib = 1024 ** 2;
const chat = "/v1/compat/chat/completions";
/** Refused by what the JSON is, or by a schema; 413 where the limit of the endpoint is lower than the body. */
const refused = [400, 413, 422];

const listOf = (item: string, count: number): string => `[${`${item},`.repeat(count - 1)}${item}]`;
const fieldsOf = (count: number, prefix = "key"): string =>
  Array.from({ length: count }, (_, i) => `"${prefix}${i}":${i}`).join();
/** `model`: a text model that is served. */
export function hostileRequests(model: string): HostileRequest[] {
  const all: HostileRequest[] = [];
  const chatOf = (fields: string): Buffer =>
    Buffer.from(`{"model":"${model}","messages":[{"role":"user","content":"hi"}],"max_tokens":1,${fields}}`);
  const withMedia = (bytes: number): Buffer =>
    Buffer.from(
      `{"model":"${model}","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,${"A".repeat(bytes)}"}}]}]}`,
    );

  const add = (name: string, path: string, body: Buffer | string, more: Partial<HostileRequest> = {}) =>
    all.push({ name, path, isKeyed: true, statuses: refused, ...more, body: Buffer.from(body) });
  const open = { isKeyed: false, statuses: [400, 413, 422, 429] } as const;

  add("sign-in: 3.9 MiB of [[…]]", "/v1/auth/sign-in", "[".repeat(1.95 * mib) + "]".repeat(1.95 * mib), open);
  add("sign-in: 16 KiB of [[…]]", "/v1/auth/sign-in", "[".repeat(8_000) + "]".repeat(8_000), open);
  add("sign-in: password of 9 MiB", "/v1/auth/sign-in", `{"email":"a@b.c","password":"${"p".repeat(9 * mib)}"}`, open);
  add("stripe: 900 KiB of [],", "/payment/stripe/webhook", listOf("[]", 300_000), { ...open, statuses: [400, 404] });
  add("login form: 9 MiB of a&", "/login", "a&".repeat(4.5 * mib), {
    ...open,
    headers: { "content-type": "application/x-www-form-urlencoded" },
  });

  add("chat: 10 MB of [[…]]", chat, "[".repeat(5e6) + "]".repeat(5e6));
  add("chat: 9 MB of [],", chat, chatOf(`"x":${listOf("[]", 3e6)}`));
  add("chat: 9 MB of {},", chat, chatOf(`"x":${listOf("{}", 3e6)}`));
  add("chat: 400,000 distinct fields", chat, chatOf(fieldsOf(400_000)));
  add("chat: 15,000 distinct fields, within the limit", chat, chatOf(fieldsOf(15_000)), { statuses: [200, 422] });
  add(
    "chat: 15,000 objects of distinct fields",
    chat,
    chatOf(`"x":[${fieldsOf(15_000).replaceAll(/[^,]+/g, "{$&}")}]`),
    {
      statuses: [200, 422],
    },
  );
  add("chat: 64,000 distinct short texts", chat, chatOf(`"stop":[${fieldsOf(64_000).replaceAll(/:\d+/g, "")}]`));
  add("chat: 750,000 numbers", chat, chatOf(`"stop_token_ids":${listOf("12345", 750_000)}`), { statuses: [200, 422] });
  add("chat: 750,000 numbers of another type", chat, chatOf(`"stop_token_ids":${listOf("1.5", 750_000)}`));
  add(
    "chat: 18,000 integers above 2^53",
    chat,
    chatOf(`"seed":1234567890123456789,"x":${listOf("1234567890123456789", 18_000)}`),
    {
      statuses: [200, 422],
    },
  );
  add(
    "chat: 750,000 numbers and a seed above 2^53",
    chat,
    chatOf(`"seed":1234567890123456789,"x":${listOf("7", 750_000)}`),
    {
      statuses: [200, 422],
    },
  );
  add(
    "chat: 24,000 messages",
    chat,
    `{"model":"${model}","max_tokens":1,"messages":${listOf('{"role":"user"}', 12_000)}}`,
  );
  add('chat: 9 MB of \\" escapes', chat, chatOf(`"user":"${'\\"'.repeat(4.5e6)}"`));
  add("chat: 3.5 MB of \\u escapes", chat, chatOf(`"user":"${"\\u4e2d".repeat(600_000)}"`), { statuses: [200, 422] });
  add(
    "chat: half of a surrogate pair behind 750,000 numbers",
    chat,
    chatOf(`"x":${listOf("7", 750_000)},"user":"\\ud800"`),
  );
  const definition = `"d":{"anyOf":${listOf("{}", 60_000)}}`;
  const references = Array.from({ length: 9_000 }, (_, i) => `{"$ref":"#${i}/$defs/d"}`).join();
  const schema = `{"anyOf":[${references}],"$defs":{${definition}}}`;
  const format = `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":${schema}}}`;
  add("chat: 9,000 spellings of a reference to 60,000 schemas", chat, chatOf(format));
  add("chat: a pattern of 4 MB", chat, chatOf(`"response_format":{"type":"regex","regex":"a${"{1}".repeat(1.3e6)}"}`));
  add("chat: 10 MB of white space", chat, Buffer.alloc(10e6, " "));
  add("chat: a number of 9 MB", chat, chatOf(`"seed":${"9".repeat(9e6)}`));
  add("chat: 9 MB of text", chat, chatOf(`"user":"${"é€".repeat(1.8e6)}"`), { statuses: [200, 422] });
  add("chat: an image of 9 MB", chat, withMedia(9e6), { statuses: [200, 400, 422] });
  add("chat: an image of 48 MB", chat, withMedia(48e6), { statuses: [200, 400, 422] });
  add(
    "completions: 9 MB of __proto__",
    "/v1/completions",
    `{${'"__proto__":{},'.repeat(6e5)}"model":"${model}","prompt":"x"}`,
  );
  add(
    "embeddings: 750,000 token ids",
    "/v1/compat/embeddings",
    `{"model":"${model}","input":${listOf("7", 750_000)}}`,
    {
      statuses: [200, 422],
    },
  );
  add("management: 9 MB to a key's name", "/v1/api-tokens", `{"name":"${"n".repeat(9e6)}"}`);
  add("compressed", chat, Buffer.alloc(mib, 1), { headers: { "content-encoding": "gzip" }, statuses: [400, 415] });

  const boundary = "b".repeat(60);
  const form = { "content-type": `multipart/form-data; boundary=${boundary}` };
  const part = (name: string, value: string) =>
    `--${boundary}\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
  const transcribe = "/v1/compat/audio/transcriptions";
  const tail = `--${boundary}--\r\n`;
  add("form: 60,000 parts", transcribe, part("a", "1").repeat(60_000) + tail, { headers: form });
  add(
    "form: 40 MB that almost end a part",
    transcribe,
    part("model", `\r\n--${"b".repeat(59)}`.repeat(620_000)) + tail,
    {
      headers: form,
    },
  );
  add("form: a field of 9 MB of digits", transcribe, part("temperature", `${"1".repeat(9e6)}x`) + tail, {
    headers: form,
  });
  add("form: a field of 9 MB of JSON", transcribe, part("timestamp_granularities", listOf("[]", 3e6)) + tail, {
    headers: form,
  });
  add("urlencoded: 9 MB of a&", transcribe, "a&".repeat(4.5e6), {
    headers: { "content-type": "application/x-www-form-urlencoded" },
  });
  return all;
}
