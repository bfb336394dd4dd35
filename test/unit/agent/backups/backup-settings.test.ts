import { describe, expect, test } from "vitest";
import { readBackupSettings } from "../../../../agent/config.ts";

function read(env: Record<string, string>) {
  const problems: string[] = [];
  const settings = readBackupSettings(
    (key) => env[key],
    "/data",
    (sentence) => problems.push(sentence),
  );
  return { settings, problems };
}

describe("the store of backups", () => {
  test("is a folder beside the agent's state by default", () => {
    expect(read({}).settings).toEqual({ folder: "/data/backups", s3: undefined });
    expect(read({ STOKER_BACKUP_DIR: "/mnt/nas" }).settings.folder).toBe("/mnt/nas");
  });

  test("is a bucket when one is named, and its secret is never shown", () => {
    const { settings, problems } = read({
      STOKER_BACKUP_S3_BUCKET: "b",
      STOKER_BACKUP_S3_PREFIX: "/stoker/",
      STOKER_BACKUP_S3_ENDPOINT: "https://s3.example.com",
      AWS_ACCESS_KEY_ID: "id",
      AWS_SECRET_ACCESS_KEY: "a-very-secret-key",
    });
    expect(problems).toEqual([]);
    expect(settings.s3).toMatchObject({ bucket: "b", prefix: "stoker/", region: "us-east-1" });
    expect(JSON.stringify(settings)).not.toContain("a-very-secret-key");
  });

  test("reports half a pair of keys and an invalid endpoint together", () => {
    const { problems } = read({
      STOKER_BACKUP_S3_BUCKET: "b",
      STOKER_BACKUP_S3_ENDPOINT: "s3.example.com",
      AWS_ACCESS_KEY_ID: "id",
    });
    expect(problems).toHaveLength(2);
  });
});
