import { describe, expect, it } from "vitest";
import { printable } from "../../../cli/printable.ts";

describe("printable", () => {
  it("replaces all escape sequences", () => {
    const hostile = "\u001b[2J\u001b]52;c;eA==\u0007\u009b31m\u0000\u007f\u008d";
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it must not keep.
    expect(printable(hostile)).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
    expect(printable("a line\rover it")).toBe("a line\ufffdover it");
  });

  it("keeps lines, tabs, CSV and every other character", () => {
    const text = "name\tvalue\nä 漢字 👩‍🔬 \u202e\r\n";
    expect(printable(text)).toBe(text);
  });
});
