// `stoker invoice`: an export is whole, and the JSON of an invoice is compared with the file.
import { describe, expect, it } from "vitest";
import { invoiceProblems } from "../../../cli/invoice-match.ts";
import { wholeExport } from "../../../cli/whole-export.ts";
import { checkInvoice } from "../../../proto/invoice-check.ts";
import { inPieces, makeInvoiceFile } from "../../fakes/invoice-file.ts";

const bytesOf = async (pieces: readonly string[], failure?: Error): Promise<string> => {
  let text = "";
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(Buffer.from(piece));
      if (!failure) controller.close();
    },
    pull(controller) {
      if (failure) controller.error(failure);
    },
  });
  for await (const chunk of wholeExport(body)) text += chunk.toString();
  return text;
};

describe("an export", () => {
  const whole = '{"type":"stoker.invoice"}\n{"type":"open","text":"{}"}\n';

  it("passes every byte of a whole file, wherever it is cut into pieces", async () => {
    for (let at = 0; at <= whole.length; at++) expect(await bytesOf([whole.slice(0, at), whole.slice(at)])).toBe(whole);
    expect(await bytesOf([...whole])).toBe(whole);
    expect(await bytesOf(['{"type":"statement","text":"', "x".repeat(100_000), '"}\n'])).toHaveLength(100_031);
  });

  it.each([
    ["without its last line", ['{"type":"stoker.invoice"}\n{"type":"segment","segment":1}\n']],
    ["cut within its last line", [whole.slice(0, -1)]],
    ["empty", []],
    ["with a blank last line", [`${whole}\n`]],
  ])("fails %s", async (_, pieces) => {
    await expect(bytesOf(pieces)).rejects.toThrow("The export ended early. Run it again.");
  });

  it("fails with a message when the connection breaks", async () => {
    await expect(bytesOf([whole], new Error("terminated"))).rejects.toThrow(
      "The connection ended before the export was whole. Run it again.",
    );
  });
});

describe("the JSON of an invoice", async () => {
  const { lines, publicKey } = makeInvoiceFile({ records: 30 });
  const verdict = await checkInvoice(inPieces(lines()), { keys: [publicKey] });
  const cents = Number(verdict.total) / 1e7;
  const invoice = {
    id: "inv_1",
    total: cents,
    lines: [{ model: "acme/model", pricing_type: "tokens", amount: cents }],
  };

  it("matches the file of which it is", () => {
    expect(verdict.problems).toEqual([]);
    expect(invoiceProblems(verdict, invoice)).toEqual([]);
  });

  it.each([
    ["another total", { total: cents + 1 }, "The invoice is over USD"],
    [
      "a further line",
      { lines: [...invoice.lines, { model: "acme/x", amount: 1 }] },
      "for acme/x (undefined), the file",
    ],
    ["another model", { lines: [{ ...invoice.lines[0], model: "acme/x" }] }, "for acme/x (tokens), the file nothing."],
    ["no lines", { lines: [] }, "The invoice has nothing for acme/model (tokens)"],
    ["a line that is null", { lines: [null] }, "Line 1 of the invoice has no `model` or `amount`."],
    ["another id", { id: "inv_2" }, "The file has invoice inv_1, not inv_2."],
    ["no total", { total: "1" }, "The invoice is not the JSON of one"],
  ])("differs with %s", (_, change, problem) => {
    expect(invoiceProblems(verdict, { ...invoice, ...change }).join("\n")).toContain(problem);
  });

  it("differs when the amounts of two lines of one model are divided in another way", () => {
    const [line] = verdict.invoiceLines;
    if (!line) throw new Error("no line");
    const half = verdict.total / 3n;
    const two = {
      ...verdict,
      invoiceLines: [
        { ...line, cost: half },
        { ...line, priceVersion: 8n, cost: verdict.total - half },
      ],
    };
    const linesWith = (first: number) => ({
      ...invoice,
      lines: [first, cents - first].map((amount) => ({ ...invoice.lines[0], amount })),
    });
    expect(invoiceProblems(two, linesWith(Number(half) / 1e7))).toEqual([]);
    expect(invoiceProblems(two, linesWith(Number(half) / 1e7 + 1))).toHaveLength(1);
  });

  it("is not something else", () => {
    for (const other of [null, 1, [], {}, "x"])
      expect(invoiceProblems(verdict, other)[0]).toContain("The invoice is not the JSON of one");
  });
});
