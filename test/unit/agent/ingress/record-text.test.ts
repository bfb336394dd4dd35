import { expect, it } from "vitest";
import { RecordText } from "../../../../agent/ingress/attempt-record.ts";
import { openSealed } from "../../../../proto/ticket.ts";
import { ticketFor } from "../../../fakes/data-path.ts";
import { sealedText, testSeals } from "../../../fakes/seals.ts";

const end = {
  figures: { input: 7, cachedInput: 2, output: 5, reasoning: 1 },
  source: "engine" as const,
  endReason: "stop" as const,
  endedAtMs: 2_000.4,
  firstByteMs: 12.6,
  totalMs: 40.2,
  httpStatus: 200,
};
const textOf = ({ json }: { readonly json: string | (() => string) }) => (typeof json === "string" ? json : json());

it("returns the sealed ticket unchanged, whatever is in it", () => {
  const tickets = [
    ticketFor({ admittedAtMs: 1_000 }),
    ticketFor({ admittedAtMs: 1_000, requestId: 'with "quotes"\n' }),
    ticketFor({ admittedAtMs: 1_000, model: "a/ö\u2028", leaseIds: ["lease1", "lease2"] }),
  ];
  for (const ticket of tickets) {
    const sealed = sealedText(ticket);
    const record = JSON.parse(textOf(new RecordText(ticket, sealed, 4n, 1_500, 3).ended(end)));
    expect(record).toEqual({
      requestId: ticket.requestId,
      attempt: 1,
      ticket: sealed,
      endedAtMs: 2_000,
      nodeEpoch: "4",
      inputTokens: 7,
      cachedInputTokens: 2,
      outputTokens: 5,
      reasoningTokens: 1,
      source: "engine",
      endReason: "stop",
      queueMs: 3,
      firstByteMs: 13,
      totalMs: 40,
      httpStatus: 200,
    });
    expect(openSealed(record.ticket, () => testSeals.newest().bytes)).toMatchObject({ ...ticket });
  }
});

it("is lost, without output, while nothing has ended", () => {
  const ticket = ticketFor({ admittedAtMs: 9_000 });
  const row = new RecordText(ticket, sealedText(ticket), 4n, 1_500, 3).started();
  // The host's clock is behind: no interval is negative.
  expect(JSON.parse(textOf(row))).toMatchObject({
    endReason: "lost",
    inputTokens: 10,
    outputTokens: 0,
    endedAtMs: 9_000,
  });
});

it("names what was counted for a task that is not text", () => {
  const counts = { characters: 11, audioMs: 0, images: 0, imagePixelSteps: 0, items: 0 };
  const ticket = ticketFor({ units: { asked: counts, rates: ["5", "6", "7", "8"] } });
  const figures = { ...end.figures, units: counts };
  const text = textOf(new RecordText(ticket, sealedText(ticket), 4n, 1_500, 3).ended({ ...end, figures }));
  expect(JSON.parse(text)).toMatchObject(counts);
});
