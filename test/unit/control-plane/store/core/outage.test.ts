import { expect, it } from "vitest";
import { DatabaseUnavailable } from "../../../../../control-plane/service-error.ts";
import { asking, outageReason } from "../../../../../control-plane/store/core/outage.ts";

const failed = (code: string, message = "") => Object.assign(new Error(message), { code });

it.each([
  ["53100", "disk_full"],
  ["53200", "overloaded"],
  ["53300", "overloaded"],
  ["57014", "overloaded"],
  ["57P01", "unreachable"],
  ["57P03", "unreachable"],
  ["08006", "unreachable"],
  ["25006", "read_only"],
  ["58030", "failing"],
  ["XX000", "failing"],
  ["ECONNREFUSED", "unreachable"],
])("takes %s for an outage", (code, reason) => {
  expect(outageReason(failed(code))).toBe(reason);
});

it.each(["22003", "22P02", "23505", "23514", "40001", "40P01", "42501", "42601", "42P01", "P0001", "55000"])(
  "takes %s for the fault of the statement",
  async (code) => {
    const error = failed(code);
    expect(outageReason(error)).toBeUndefined();
    await expect(asking(() => Promise.reject(error))).rejects.toBe(error);
  },
);

it("recognises a full disk that the server reports as an I/O or internal error", async () => {
  const error = failed("58030", 'could not write to file "pg_wal/xlogtemp.7": No space left on device');
  await expect(asking(() => Promise.reject(error))).rejects.toMatchObject({
    params: { reason: "disk_full" },
    cause: { cause: error },
  });
  expect(outageReason(failed("22023", "No space left on device"))).toBeUndefined();
});

it("does not wrap a recognised outage again", async () => {
  const outage = new DatabaseUnavailable("no_answer");
  await expect(asking(() => Promise.reject(outage))).rejects.toBe(outage);
});
