import { expect, it } from "vitest";
import { RecordText } from "../../../../agent/ingress/record-text.ts";
import { ticketFor } from "../../../fakes/data-path.ts";

const end = {
  figures: { input: 7, cachedInput: 2, output: 5, reasoning: 1 },
  source: "engine" as const,
  endReason: "stop" as const,
  endedAtMs: 2_000.4,
  firstByteMs: 12.6,
  totalMs: 40.2,
};
const textOf = ({ json }: { readonly json: string | (() => string) }) => (typeof json === "string" ? json : json());

it("says of whom, what and at which price, whatever request came before", () => {
  const tickets = [
    ticketFor({ admittedAtMs: 1_000 }),
    ticketFor({ admittedAtMs: 1_000, account: "u:other", requestId: 'with "quotes"\n' }),
    ticketFor({ admittedAtMs: 1_000, account: "u:other", leaseIds: ["lease1", "lease2"] }),
    ticketFor({ admittedAtMs: 1_000, account: "u:other", rates: ["1", "2", "3"], discountId: "d" }),
    ticketFor({ admittedAtMs: 1_000, model: "a/ö\u2028" }),
  ];
  for (const ticket of tickets) {
    expect(JSON.parse(textOf(new RecordText(ticket, 4n, 1_500, 3).ended(end)))).toEqual({
      requestId: ticket.requestId,
      attempt: 1,
      admittedAtMs: 1_000,
      endedAtMs: 2_000,
      instanceId: ticket.instanceId,
      deployId: ticket.deployId,
      nodeEpoch: "4",
      accountId: ticket.account,
      keyId: ticket.keyId,
      replicaId: ticket.replicaId,
      model: ticket.model,
      leaseIds: ticket.leaseIds,
      holdNanoUsd: ticket.hold,
      inputTokens: 7,
      cachedInputTokens: 2,
      outputTokens: 5,
      reasoningTokens: 1,
      source: "engine",
      endReason: "stop",
      priceVersion: 1,
      discountId: ticket.discountId ?? "",
      inputRate: ticket.rates[0],
      cachedInputRate: ticket.rates[1],
      outputRate: ticket.rates[2],
      queueMs: 3,
      firstByteMs: 13,
      totalMs: 40,
    });
  }
});

it("is lost, without output, while nothing has ended", () => {
  const row = new RecordText(ticketFor({ admittedAtMs: 9_000 }), 4n, 1_500, 3).started();
  // The host's clock is behind: no interval is negative.
  expect(JSON.parse(textOf(row))).toMatchObject({
    endReason: "lost",
    inputTokens: 10,
    outputTokens: 0,
    endedAtMs: 9_000,
  });
});

it("names what was counted and its rates for a task that is no text", () => {
  const counts = { characters: 11, audioMs: 0, images: 0, imagePixelSteps: 0, items: 0 };
  const ticket = ticketFor({ units: { asked: counts, rates: ["5", "6", "7", "8"] } });
  const text = textOf(
    new RecordText(ticket, 4n, 1_500, 3).ended({ ...end, figures: { ...end.figures, units: counts } }),
  );
  expect(JSON.parse(text)).toMatchObject({ characterRate: "5", imageUnit: "8", ...counts });
});
