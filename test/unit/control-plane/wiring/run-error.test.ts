import { describe, expect, it } from "vitest";
import { SecretsMissing } from "../../../../control-plane/accounts/secret-files.ts";
import { DatabaseNotReached, runError } from "../../../../control-plane/wiring/database.ts";

const coded = (code: string, message: string, facts: object = {}) =>
  Object.assign(new Error(message), { code, ...facts });

describe("a control plane that fails while it starts", () => {
  it("exits with EX_TEMPFAIL and one sentence when PostgreSQL has failed", () => {
    const errors = [
      coded("ECONNREFUSED", "connect ECONNREFUSED 127.0.0.1:5432", { syscall: "connect" }),
      coded("57P03", "the database system is starting up"),
      new Error("Connection terminated unexpectedly"),
      coded("ENOENT", "connect ENOENT /run/postgresql/.s.PGSQL.5432", { syscall: "connect" }),
    ];
    for (const error of errors) {
      const told = runError(error) as DatabaseNotReached;
      expect(told).toBeInstanceOf(DatabaseNotReached);
      expect(told).toMatchObject({ exitCode: 75, cause: error });
      expect(told.message).toContain(error.message);
    }
  });

  it("keeps every other error", () => {
    const errors = [
      coded("ENOENT", "no such file", { syscall: "open" }),
      coded("42P01", 'relation "account" does not exist'),
      new TypeError("undefined is not a function"),
      new SecretsMissing("kek is missing"),
    ];
    for (const error of errors) expect(runError(error)).toBe(error);
  });
});
