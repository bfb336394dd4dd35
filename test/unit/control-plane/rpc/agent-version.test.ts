import { describe, expect, it } from "vitest";
import { whyVersionRefused } from "../../../../control-plane/rpc/wire.ts";

describe("an agent's version", () => {
  it.each(["1.4.2", "1.4.3", "1.5.0", "2.0.0", "1.10.0", "v1.4.2", "1.4.2-rc.1", "1.4.2+build.7"])(
    "accepts %s where 1.4.2 is the minimum",
    (version) => expect(whyVersionRefused(version, "1.4.2")).toBeUndefined(),
  );
  it.each(["1.4.1", "1.3.9", "0.99.99", "1.4.1-rc.9"])("refuses %s as too old", (version) => {
    const why = whyVersionRefused(version, "1.4.2");
    expect(why).toContain(`version ${version}`);
    expect(why).toContain("at least 1.4.2");
  });
  it.each(["", "one", "1", "1.4", "1.4.2.3", "1.4.x", `1.${"4".repeat(400)}.2`])(
    "refuses %j as malformed",
    (version) => {
      const why = whyVersionRefused(version, "1.4.2") ?? "";
      expect(why).toContain("which is not a version such as 1.4.2");
      expect(why.length).toBeLessThan(300);
    },
  );
});
