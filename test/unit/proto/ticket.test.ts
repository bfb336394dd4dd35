import { createHmac, randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { signTicket, type Ticket, verifyTicket } from "../../../proto/ticket.ts";

const nowMs = 1_786_000_000_000;
const ticket = (change: Partial<Ticket> = {}): Ticket => ({
  requestId: "r".repeat(24),
  attempt: 1,
  instanceId: "instance-1",
  deployId: "DpM4BkrjEspUwmTa",
  admittedAtMs: nowMs,
  expiresAtMs: nowMs + 60_000,
  account: "u:1",
  keyId: "key",
  replicaId: "replica",
  model: "org/модель-漢",
  leaseIds: ["lease"],
  hold: "12345678901234567890",
  permits: 1,
  inputTokensBound: 10,
  inputTokensEstimate: 3,
  maxTokens: 20,
  stream: true,
  usage: "merge",
  rates: ["1", "2", "3"],
  priceVersion: 1,
  ...change,
});

describe("a ticket", () => {
  it.each([1, 32, 64, 65, 200])("is signed by plain HMAC-SHA256 with a key of %i bytes", (length) => {
    const key = randomBytes(length);
    for (const model of ["a", "漢".repeat(5000)]) {
      const header = signTicket(ticket({ model }), key);
      const json = header.slice(44);
      expect(header.slice(0, 43)).toBe(createHmac("sha256", key).update(json).digest("base64url"));
      expect(verifyTicket(header, [key], nowMs)).toEqual(ticket({ model }));
    }
  });

  it("is header text of ASCII alone, whatever the model is called", () => {
    expect(signTicket(ticket(), randomBytes(32))).toMatch(/^[\x20-\x7e]+$/);
  });

  it("is good with the current and the previous key, and until its time", () => {
    const [old, current] = [randomBytes(32), randomBytes(32)];
    const header = signTicket(ticket(), old);
    expect(verifyTicket(header, [current, old], nowMs)).toEqual(ticket());
    expect(verifyTicket(header, [current], nowMs)).toBe("bad_signature");
    expect(verifyTicket(header, [], nowMs)).toBe("bad_signature");
    expect(verifyTicket(header, [old], nowMs + 60_001)).toBe("expired");
  });

  it("without an estimate of its input, as an older control plane signs it, bills by the bound", () => {
    const key = randomBytes(32);
    const { inputTokensEstimate: _, ...older } = ticket();
    const header = signTicket(older as Ticket, key);
    expect(header).not.toContain("inputTokensEstimate");
    expect(verifyTicket(header, [key], nowMs)).toEqual(ticket({ inputTokensEstimate: older.inputTokensBound }));
  });

  it("is refused once a character of it was changed", () => {
    const key = randomBytes(32);
    const header = signTicket(ticket(), key);
    expect(verifyTicket(header.replace('"permits":1', '"permits":9'), [key], nowMs)).toBe("bad_signature");
    const first = header.startsWith("A") ? "B" : "A";
    expect(verifyTicket(first + header.slice(1), [key], nowMs)).toBe("bad_signature");
    expect(verifyTicket("", [key], nowMs)).toBe("malformed");
    expect(verifyTicket(`short.${header}`, [key], nowMs)).toBe("malformed");
  });
});
