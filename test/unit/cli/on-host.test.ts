import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { CliError } from "../../../cli/cli-error.ts";
import { hostEnvironment } from "../../../cli/on-host.ts";

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "stoker-cli-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

it("finds the database that `up` runs for a data folder, and where the key belongs", () => {
  const data = join(folder(), "data");
  mkdirSync(join(data, "secrets"), { recursive: true });
  writeFileSync(join(data, "secrets", "postgres.password"), "p/w\n");
  writeFileSync(join(data, "ports.json"), '{"postgres":5433}');
  const places = {
    DATABASE_URL: "postgres://stoker:p%2Fw@127.0.0.1:5433/stoker",
    STOKER_SECRETS_DIR: join(data, "secrets"),
    STOKER_ADMIN_KEY_FILE: join(data, "admin.key"),
  };
  expect(hostEnvironment({}, data, "/")).toEqual(places);
  expect(hostEnvironment({ STOKER_DATA: data }, undefined, "/")).toMatchObject(places);
  const own = "postgresql://db.internal/stoker";
  expect(hostEnvironment({ DATABASE_URL: own }, data, "/")).toEqual({ ...places, DATABASE_URL: own });
});

it("takes everything from the environment where there is no data folder", () => {
  const env = { DATABASE_URL: "postgresql://db/stoker", STOKER_SECRETS_DIR: "/s", STOKER_ADMIN_KEY_FILE: "/k" };
  expect(hostEnvironment({ ...env, STOKER_DATA: "/nowhere" }, undefined, "/")).toMatchObject(env);
});

it("says what to name where nothing says which installation it is", () => {
  expect(() => hostEnvironment({}, "/nowhere", "/")).toThrow(/--data/);
  const data = folder();
  mkdirSync(join(data, "secrets"));
  expect(() => hostEnvironment({}, data, "/")).toThrow(CliError);
});
