import { describe, expect, it } from "vitest";
import { readConfig } from "../../../control-plane/config.ts";

const database = "postgresql://stoker@127.0.0.1:5432/stoker";

describe("the configuration of the control plane", () => {
  it("needs nothing but a database", () => {
    const config = readConfig({ DATABASE_URL: database });
    expect(config.http).toEqual({ host: "127.0.0.1", port: 8080 });
    expect(config.rpc.port).toBe(0);
    expect(config).toMatchObject({
      databaseUrl: database,
      logLevel: "info",
      stopsWithParent: false,
      hostClockScale: 1,
    });
  });

  it("tells every problem at once", () => {
    const env = {
      STOKER_PORT: "eighty",
      STOKER_RPC_PORT: "70000",
      STOKER_LOG_LEVEL: "loud",
      DATABASE_URL: "mysql://x",
    };
    for (const key of Object.keys(env)) expect(() => readConfig(env)).toThrow(key);
  });

  it("says what is missing without a database", () => {
    expect(() => readConfig({})).toThrow(/DATABASE_URL is required/);
    expect(() => readConfig({ DATABASE_URL: "" })).toThrow(/DATABASE_URL is required/);
  });
});
