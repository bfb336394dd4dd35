import { spawn } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import { checkInvoice, maxLineBytes } from "../../../proto/invoice-check.ts";
import { recordFields, segmentItems } from "../../../proto/invoice-file.ts";
import { exportedMs, type FileOptions, inPieces, makeInvoiceFile, usualPrice } from "../../fakes/invoice-file.ts";
import { longer } from "../../fakes/nightly.ts";

function check(options: FileOptions, trusted = true) {
  const { lines, publicKey } = makeInvoiceFile(options);
  return checkInvoice(inPieces(lines()), trusted ? { keys: [publicKey] } : {});
}

const checkText = (text: string) => checkInvoice(inPieces([text]));

/** Changes the lines of one segment. */
const inSegment =
  (segment: number, change: (lines: string[]) => string[]) =>
  (at: number, lines: string[]): string[] =>
    at === segment ? change(lines) : lines;

describe("an invoice file", () => {
  it("verifies when nothing was changed", async () => {
    const verdict = await check({ records: 2_500 });
    expect(verdict).toMatchObject({
      problems: [],
      notes: [],
      records: 2_500,
      segments: 3,
      isClosed: true,
      invoice: "inv_1",
    });
    expect(verdict).toMatchObject({ account: "u:1", month: "2026.01", isKeyTrusted: true, expired: 0 });
    const total = Array.from({ length: 2_500 }, (_, i) => BigInt((600 + ((i + 1) % 7)) * 20 + 16_000));
    expect(verdict.total).toBe(total.reduce((sum, one) => sum + one, 0n));
    expect((await check({ records: 3 }, false)).isKeyTrusted).toBe(false);
  });

  it("names the record of which any one field was altered", async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat({ max: 29 }), fc.constantFrom(...recordFields), async (at, field) => {
        const verdict = await check({
          records: 30,
          perSegment: 10,
          alter: inSegment(Math.floor(at / 10) + 1, (lines) => {
            const values = JSON.parse(lines[(at % 10) + 1] as string) as Record<string, unknown>;
            const before = values[field.name];
            values[field.name] =
              field.type === "text"
                ? `${before ?? ""}x`
                : field.type === "amount"
                  ? String(BigInt(String(before ?? 0)) + 1n)
                  : Number(before ?? 0) + 1;
            return lines.with((at % 10) + 1, `${JSON.stringify(values)}\n`);
          }),
        });
        expect(verdict.problemCount).toBe(1);
        expect(verdict.problems[0]).toContain(`(record ${at + 1}) does not match its digest`);
      }),
      { numRuns: longer(20, 1_000) },
    );
  });

  it.each([
    ["missing", (lines: string[]) => lines.toSpliced(4, 1), ["Record 14 (segment 2) is missing."]],
    [
      "repeated",
      (lines: string[]) => lines.toSpliced(6, 0, lines[4] as string),
      ["Request request-14 attempt 1 (record 14) is repeated."],
    ],
    [
      "out of order",
      (lines: string[]) => lines.with(4, lines[5] as string).with(5, lines[4] as string),
      ["Request request-14 attempt 1 (record 14) is out of order."],
    ],
    [
      "added",
      (lines: string[]) => lines.toSpliced(5, 0, (lines[4] as string).replace("request-14", "request-x")),
      ["Request request-x attempt 1 (before record 15) is not among the sealed records: it was added."],
    ],
    ["last and missing", (lines: string[]) => lines.toSpliced(10, 1), ["Record 20 (segment 2) is missing."]],
  ])("names a record that is %s", async (_, change, problems) => {
    const verdict = await check({ records: 30, perSegment: 10, alter: inSegment(2, change) });
    expect(verdict.problems).toEqual(problems);
  });

  it("names a segment that is missing, repeated, or altered with all its records", async () => {
    const missing = await check({ records: 30, perSegment: 10, alter: inSegment(2, () => []) });
    expect(missing.problems[0]).toBe("Segments 2 to 2 are missing.");
    const repeated = await check({ records: 30, perSegment: 10, alter: inSegment(2, (lines) => [...lines, ...lines]) });
    expect(repeated.problems[0]).toContain("Segment 2 (10 records from 21 on) is repeated or out of order");
    const other = [...makeInvoiceFile({ records: 30, perSegment: 10 }).lines()];
    const foreign = await check({ records: 30, perSegment: 10, alter: inSegment(2, () => other.slice(14, 25)) });
    expect(foreign.problems[0]).toContain("Segment 2 (10 records from 11 on) has no valid signature");
  });

  it("names what costs something else than its price, although it was sealed so", async () => {
    const record = (changed: object) => (n: number) => ({
      ...{
        request_id: `r${n}`,
        attempt: 1,
        input_tokens: 10,
        key_id: "key-1",
        model: "acme/model",
        price_version: "7",
      },
      ...{ cost: "200", charge: "200", admitted_us: 1, settled_us: 1 },
      ...(n === 2 ? changed : {}),
    });
    const problemOf = async (changed: object) => (await check({ records: 3, record: record(changed) })).problems[0];
    expect(await problemOf({})).toBeUndefined();
    expect(await problemOf({ cost: "201", charge: "201" })).toContain(
      "(record 2) costs 201, but price version 7 gives 200",
    );
    expect(await problemOf({ charge: "1001" })).toContain(
      "(record 2) was charged 1001, which is not between 0 and 200",
    );
    expect(await problemOf({ price_version: "8" })).toContain("names price version 8, which is not in the file");
    expect(await problemOf({ discount_id: "d1" })).toContain("names discount d1, which is not in the file");
    expect(await problemOf({ request_id: "r1" })).toContain("is billed twice");
    // 120 GPU seconds at 3600 an hour.
    const hour = { price_version: "9", kind: "gpu", subject: "H100", hour: "3600", effective_from_us: 0 };
    const rented = async (cost: string) => {
      const minute = { price_version: "9", input_tokens: 0, gpu_ms: 120_000, cost, charge: cost };
      const { problems } = await check({ records: 3, record: record(minute), rates: [["price", hour]] });
      return problems.filter((problem) => problem.includes("(record 2)"));
    };
    expect(await rented("120")).toEqual([]);
    expect(await rented("121")).toEqual(["Request r2 attempt 1 (record 2) costs 121, but price version 9 gives 120."]);
    expect((await check({ records: 3, record: record({ charge: "100" }) })).notes).toEqual([
      "Records charged less than their price: 1.",
    ]);
  });

  it("fails without its end, and with another key, line or statement", async () => {
    const { lines, publicKey } = makeInvoiceFile({ records: 30, perSegment: 10 });
    const all = [...lines()];
    const problemsOf = async (changed: readonly string[], keys = [publicKey]) =>
      (await checkInvoice(inPieces(changed), { keys })).problems;
    expect(await problemsOf(all)).toEqual([]);
    expect(await problemsOf(all.slice(0, -1))).toEqual([
      "The last line is missing: records at the end may be missing too.",
    ]);
    expect(await problemsOf(all.slice(0, -13))).toContain(
      "The last line is missing: records at the end may be missing too.",
    );
    expect(await problemsOf(all, [makeInvoiceFile({ records: 1 }).publicKey])).toEqual([
      "The file is signed by key 1, which is none of the given ones and not signed by them.",
    ]);
    const end = all.length - 1;
    expect(await problemsOf(all.with(end - 1, (all[end - 1] as string).replace("acme", "acne")))).toEqual([
      "The lines of the invoice were altered.",
    ]);
    expect(await problemsOf(all.with(end, (all[end] as string).replace("inv_1", "inv_2")))).toContain(
      "The statement of the month has no valid signature.",
    );
    expect(await problemsOf([])).toEqual([
      "This is not an invoice file: its first line is missing.",
      "The file is signed by none of the given keys.",
    ]);
    expect(await problemsOf([...all, ...all.slice(-1)])).toContain(
      `Line ${all.length + 1} comes after the last line of the invoice file.`,
    );
  });
});

describe("records that the server has removed", () => {
  const remove = (lines: string[]) => lines.with(4, '{"type":"record","expired":true}\n');

  it("are counted, and the rest of the sums is compared", async () => {
    const options = { records: 30, perSegment: 10, alter: inSegment(2, remove) };
    expect(await check(options)).toMatchObject({ problems: [], expired: 1, records: 30 });
    expect((await check({ ...options, lineCost: (total) => total - 1n })).problems).toEqual([
      expect.stringMatching(/^The lines of the invoice add up to \d+, but its records to \d+\.$/),
    ]);
    expect((await check({ ...options, lineCost: (total) => total - 100_000n })).problems[0]).toMatch(
      /^The invoice has \d+ for acme\/model, but its records add up to \d+\.$/,
    );
  });

  it("do not excuse others of their segment", async () => {
    const alter = inSegment(2, (lines) => remove(lines).toSpliced(6, 1));
    expect((await check({ records: 30, perSegment: 10, alter })).problems).toEqual([
      expect.stringMatching(/^Record 1[46] \(segment 2\) is missing\.$/),
    ]);
  });
});

describe("an invoice file of an open month", () => {
  const day = 24 * 3_600_000;
  const monthEndMs = Date.UTC(2026, 1, 1);
  const open = (options: Partial<FileOptions>, atMs: number, isOpenAllowed = false) => {
    const { lines, publicKey } = makeInvoiceFile({ records: 30, perSegment: 10, openAfter: 2, ...options });
    return checkInvoice(inPieces(lines()), { keys: [publicKey], isOpenAllowed, unixMs: () => atMs });
  };

  it("verifies until a few days after the month", async () => {
    for (const atMs of [exportedMs, monthEndMs + 3 * day])
      expect(await open({}, atMs)).toMatchObject({
        ...{ problems: [], isClosed: false, exportedMs, records: 20, segments: 2, isKeyTrusted: true },
      });
  });

  it("is a problem when the month ended long ago, unless that is allowed", async () => {
    const atMs = monthEndMs + 3 * day + 1;
    expect((await open({}, atMs)).problems).toEqual([
      "The month has ended, but the file of 2026-01-15 12:00 UTC says that it is not closed: records may be missing. Export it again.",
    ]);
    expect((await open({}, atMs, true)).problems).toEqual([]);
  });

  it("cannot be made by cutting a file, because its last line is signed with the head", async () => {
    const whole = makeInvoiceFile({ records: 30, perSegment: 10, openAfter: 3 });
    const lines = [...whole.lines()];
    const cut = [...lines.slice(0, -12), ...lines.slice(-1)];
    const options = { keys: [whole.publicKey], unixMs: () => exportedMs };
    const { problems } = await checkInvoice(inPieces(cut), options);
    expect(problems).toContain("The last line says segments 3; the file has 2.");
    const unsigned = lines.with(-1, '{"type":"open","segments":3}\n');
    expect((await checkInvoice(inPieces(unsigned), options)).problems[0]).toBe(
      `Line ${lines.length} has no text \`text\`.`,
    );
    const other = lines.with(-1, (lines.at(-1) as string).replace("exported_us", "exported_at"));
    expect((await checkInvoice(inPieces(other), options)).problems[0]).toBe("The last line has no valid signature.");
  });

  it("needs a signature of a given key although it has no segment", async () => {
    const { lines } = makeInvoiceFile({ records: 0, openAfter: 0 });
    const given = { keys: [makeInvoiceFile({ records: 0 }).publicKey], unixMs: () => exportedMs };
    expect((await checkInvoice(inPieces(lines()), given)).problems).toEqual([
      "The file is signed by key 1, which is none of the given ones and not signed by them.",
    ]);
    expect((await checkInvoice(inPieces([...lines()].slice(0, 3)), given)).problems).toContain(
      "The file is signed by none of the given keys.",
    );
  });

  it("is a problem when the server closed the month with another sum", async () => {
    const openFacts = { closed: true, reason: "differs", invoice: "inv_1", total: "5" };
    const verdict = await open({ openFacts }, exportedMs, true);
    expect(verdict).toMatchObject({ isClosed: true, invoice: "inv_1" });
    expect(verdict.problems).toEqual([
      `The server closed the month with an invoice over 5, but its sealed records add up to ${verdict.total}.`,
    ]);
  });
});

describe("prices in an invoice file", () => {
  const twice = { ...usualPrice, input: "40000000", output: "80000000" };

  it.each([
    ["price", twice, "price version 7"],
    ["discount", { discount_id: "d1", basis_points: 5 }, "discount d1"],
  ] as const)("hold for every record: a second %s is a problem", async (type, values, name) => {
    const rates = [
      ["discount", { discount_id: "d1", basis_points: 10 }],
      [type, values],
    ] as const;
    expect((await check({ records: 3, rates })).problems[0]).toBe(`Line 5 has a second definition of ${name}.`);
    const afterSegment = await check({
      records: 20,
      perSegment: 10,
      alter: inSegment(2, (lines) => [`${JSON.stringify({ type, ...values })}\n`, ...lines]),
    });
    expect(afterSegment.problems).toEqual([`Line 15 has a ${type} after the first segment.`]);
  });

  it("are signed at the end, with discounts, adapters and the surcharge", async () => {
    const rates = [
      ["adapter", { model: "acme/adapter", subject: "acme/model" }],
      ["discount", { discount_id: "d1", basis_points: 10 }],
    ] as const;
    const { lines, publicKey } = makeInvoiceFile({ records: 3, rates });
    const all = [...lines()];
    const verdict = await checkInvoice(inPieces(all), { keys: [publicKey] });
    expect(verdict).toMatchObject({
      problems: [],
      prices: [{ version: "7", subject: "acme/model", rates: { input: 20_000_000n, output: 40_000_000n } }],
      adapters: [{ model: "acme/adapter", subject: "acme/model" }],
      discounts: [{ id: "d1", basisPoints: 10 }],
      adapterPercent: 50,
    });
    for (const [at, from, to] of [
      [0, '"adapter_percent":50', '"adapter_percent":60'],
      [2, '"cached_input":"10000000"', '"cached_input":"10000001"'],
      [3, "acme/adapter", "acme/other"],
      [4, '"basis_points":10', '"basis_points":11'],
    ] as const)
      expect(
        (await checkInvoice(inPieces(all.with(at, (all[at] as string).replace(from, to))), { keys: [publicKey] }))
          .problems,
      ).toEqual([
        "The statement of the month is signed for other prices, adapters or discounts than those of the file.",
      ]);
  });

  it("are those of the record's model, or of the base of an adapter with its surcharge", async () => {
    const record = (n: number) => ({
      ...{ request_id: `r${n}`, attempt: 1, input_tokens: 10, key_id: "key-1", model: "acme/adapter" },
      ...{ price_version: "7", cost: "300", charge: "300", admitted_us: 1, settled_us: 1 },
    });
    expect((await check({ records: 1, record })).problems[0]).toContain(
      "(record 1) is of acme/adapter, but price version 7 is of acme/model",
    );
    const rates = [["adapter", { model: "acme/adapter", subject: "acme/model" }]] as const;
    // The line of the fake's invoice is of acme/model.
    const { problems } = await check({ records: 1, record, rates });
    expect(problems.filter((problem) => problem.startsWith("Request"))).toEqual([]);
  });
});

it("names the one altered record among many, in memory that does not grow with the file", {
  timeout: 600_000,
}, async () => {
  const records = longer(10_000, 1_000_000);
  const at = Math.floor(Math.random() * records);
  const { lines } = makeInvoiceFile({
    records,
    perSegment: segmentItems,
    alter: inSegment(Math.floor(at / segmentItems) + 1, (lines) => {
      const line = lines[(at % segmentItems) + 1] as string;
      return lines.with((at % segmentItems) + 1, line.replace('"output_tokens":400', '"output_tokens":401'));
    }),
  });
  // A process of its own, because writing the file takes memory too. A million records have 290 MB.
  const main = join(import.meta.dirname, "../../../cli/main.ts");
  const verify = spawn(process.execPath, ["--max-old-space-size=100", main, "invoice", "verify", "-", "--json"], {
    stdio: ["pipe", "pipe", "ignore"],
  });
  onTestFinished(() => void verify.kill("SIGKILL"));
  const [output] = await Promise.all([text(verify.stdout), pipeline(inPieces(lines()), verify.stdin)]);
  expect(JSON.parse(output)).toMatchObject({
    verified: false,
    records,
    problems: [`Request request-${at + 1} attempt 1 (record ${at + 1}) does not match its digest: it was altered.`],
  });
});

describe("a hostile file", () => {
  it("fails with a message that names the line", async () => {
    const problemOf = async (line: string) => {
      const { lines } = makeInvoiceFile({ records: 1 });
      const all = [...lines()];
      return (await checkText([...all.slice(0, 3), `${line}\n`, ...all.slice(3)].join(""))).problems[0];
    };
    expect(await problemOf(`{"type":"price","x":${"[".repeat(5_000)}${"]".repeat(5_000)}}`)).toBe(
      "Line 4 is too deep.",
    );
    expect(await problemOf(`[${"1,".repeat(500_000)}1]`)).toMatch(/^Line 4 is (too complex|not a JSON object)\.$/);
    expect(await problemOf("x".repeat(maxLineBytes + 1))).toContain("Line 4 is longer than");
    expect(await problemOf("\0\0")).toBe("Line 4 is not JSON.");
    expect(await problemOf("null")).toBe("Line 4 is not a JSON object.");
    expect(await problemOf('{"type":"sale"}')).toBe("Line 4 is not a line of an invoice file.");
    expect(await problemOf('{"type":"record"}')).toBe("Line 4 is not within a segment.");
    expect(await problemOf('{"type":"key","version":"1"}')).toBe("Line 4 has no whole number `version`.");
    expect(await problemOf('{"type":"key","version":1,"public_key":"AAAA","created_us":1,"signature":""}')).toContain(
      "not one",
    );
    expect(await problemOf('{"type":"price","price_version":1}')).toBe("Line 4 has no amount `price_version`.");
    expect(await problemOf('{"type":"discount","discount_id":"d","basis_points":10001}')).toContain(
      "more than 100 per cent",
    );
    expect(await problemOf('{"__proto__":{"type":"open"}}')).toBe("Line 4 is not a line of an invoice file.");
    for (const records of [1e15, 20_001, 1])
      expect(
        await problemOf(JSON.stringify({ type: "segment", segment: 1, records, corrections: 0, digests: "" })),
      ).toContain("whose digests do not match its number of records");
    expect((await checkText('{"type":"stoker.invoice","version":2}')).problems[0]).toContain("version 2");
    expect((await checkText("%PDF-1.7")).problems[0]).toBe("Line 1 is not JSON.");
  });

  it("verifies as something else with no change of any byte", async () => {
    const { lines, publicKey } = makeInvoiceFile({ records: 5, perSegment: 2 });
    const whole = Buffer.from([...lines()].join(""));
    const { total, head, records, invoice } = await checkInvoice(one(whole), { keys: [publicKey] });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat({ max: whole.length - 1 }), fc.nat({ max: 255 })), { minLength: 1, maxLength: 3 }),
        async (changes) => {
          const bytes = Buffer.from(whole);
          for (const [at, byte] of changes) bytes[at] = byte;
          const verdict = await checkInvoice(one(bytes), { keys: [publicKey] });
          // Such as a letter of the currency, or a price by less than is rounded.
          if (verdict.problemCount === 0)
            expect(verdict).toMatchObject({ total, head, records, invoice, isKeyTrusted: true });
        },
      ),
      { numRuns: longer(60, 3_000) },
    );
  });

  it("needs no memory for a line, segment or file without an end", { timeout: 120_000 }, async () => {
    const piece = Buffer.alloc(1024 * 1024, "x");
    async function* endless(): AsyncGenerator<Buffer> {
      for (let n = 0; n < 100; n++) yield piece;
    }
    async function* problems(): AsyncGenerator<Buffer> {
      const bad = Buffer.from('{"type":"record"}\n'.repeat(20_000));
      for (let n = 0; n < 10; n++) yield bad;
    }
    const before = process.memoryUsage().rss;
    expect((await checkInvoice(endless())).problemCount).toBe(2);
    expect(await checkInvoice(problems())).toMatchObject({ problemCount: 200_001, problems: { length: 20 } });
    expect(process.memoryUsage().rss - before).toBeLessThan(250 * 1024 * 1024);
  });
});

describe("a hostile file of many lines", () => {
  const grownBy = async (lines: Iterable<string>) => {
    const before = process.memoryUsage().rss;
    const verdict = await checkInvoice(inPieces(lines));
    expect(process.memoryUsage().rss - before).toBeLessThan(300 * 1024 * 1024);
    return verdict;
  };

  it("names at most 20 of a record that is repeated without an end", { timeout: 120_000 }, async () => {
    function* lines() {
      const [header = "", key = "", price = "", segment = "", record = ""] = makeInvoiceFile({ records: 1 }).lines();
      yield* [header, key, price, segment];
      for (let n = 0; n < longer(30_000, 1_000_000); n++) yield record;
    }
    const { problems, problemCount } = await grownBy(lines());
    expect(problems).toHaveLength(20);
    expect(problemCount).toBe(longer(30_000, 1_000_000));
  });

  it.each(["price", "adapter", "discount", "line"])(
    "keeps no more names than a limit: %s",
    { timeout: 120_000 },
    async (type) => {
      function* lines() {
        yield* [...makeInvoiceFile({ records: 0 }).lines()].slice(0, 3);
        for (let n = 0; n < 20_000; n++) {
          const name = `${n} ${"x".repeat(900)}`;
          yield `${JSON.stringify({
            ...{ type, price_version: String(n + 8), kind: "model", effective_from_us: 0, basis_points: 1, cost: "1" },
            ...(type === "price"
              ? { subject: name }
              : type === "discount"
                ? { discount_id: name }
                : { model: name, subject: "" }),
          })}\n`;
        }
      }
      const { problems } = await grownBy(lines());
      expect(problems[0]).toMatch(/^Line \d+ is one of too many different names\.$/);
    },
  );

  it("has no name of more than 1,000 characters", async () => {
    const all = [...makeInvoiceFile({ records: 1 }).lines()];
    const price = (all[2] as string).replace("acme/model", "x".repeat(1_001));
    expect((await checkInvoice(inPieces(all.with(2, price)))).problems[0]).toBe(
      "Line 3 has a text `subject` of more than 1000 characters.",
    );
  });
});

async function* one(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}
