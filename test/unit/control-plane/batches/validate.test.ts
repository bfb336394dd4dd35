import { Readable } from "node:stream";
import { expect, it } from "vitest";
import { validate } from "../../../../control-plane/batches/validate.ts";

const check = (text: string) =>
  validate(Readable.from(text === "" ? [] : [Buffer.from(text)]), "/v1/chat/completions", () => true);
const line = JSON.stringify({
  ...{ custom_id: "1", method: "POST", url: "/v1/chat/completions" },
  body: { model: "org/model", messages: [] },
});

it.each([
  ["of no bytes", ""],
  ["of blank lines alone", "\n  \n\r\n\t"],
])("a file %s fails with what is wrong and what to do", async (_what, text) => {
  expect(await check(text)).toEqual({
    ok: false,
    errors: [
      {
        ...{ code: "empty_file", line: null, param: "input_file_id" },
        message: expect.stringMatching(/has no requests.*one JSON object per line.*create a new batch/),
      },
    ],
  });
});

it("blank lines beside a request are ignored", async () => {
  expect(await check(`\n${line}\n\n`)).toEqual({ ok: true, total: 1, model: "org/model" });
});

it("a byte order mark before the first line is ignored", async () => {
  expect(await check(`\uFEFF${line}\r\n`)).toEqual({ ok: true, total: 1, model: "org/model" });
});

it("a line in another encoding is refused: decoding it would change the request", async () => {
  const [latin, good] = [Buffer.from(line.replace("org/model", "org/modèle"), "latin1"), Buffer.from(`\n${line}`)];
  expect(await validate(Readable.from([latin, good]), "/v1/chat/completions", () => true)).toMatchObject({
    ok: false,
    errors: [{ code: "invalid_encoding", line: 1, message: expect.stringContaining("Write the file in UTF-8") }],
  });
});
