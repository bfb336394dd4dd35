// Describes the patterns of our schemas in words that continue "Input should", because callers cannot be expected to read regular
// expressions. A test compares this with every pattern of the published description.

const wordsByPattern: Readonly<Record<string, string>> = {
  "^[^\\u0000]*$": "hold no NUL character (U+0000)",
  "^[^\\u0000-\\u001f\\u007f-\\u009f]*$": "hold no control characters, such as line breaks or tabs",
  "^[^@\\s\\u0000]+@[^@\\s\\u0000]+$": "be an e-mail address, such as ada@example.com",
  "^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$": "be letters and digits, with single hyphens between them, such as ada-lovelace",
  "^[ -~]+$": "be printable ASCII characters, such as order-4711",
  "^https?://": "be an address that begins with http:// or https://, such as https://example.com/back",
  "^(https?://[^\\s\\u0000]+)?$":
    "be an address that begins with http:// or https:// and holds no spaces, such as https://example.com, or nothing",
  "^[A-Za-z0-9_-]{32}$": "be 32 letters, digits, hyphens or underscores",
  "^[\\w.:+ -]+$": "be letters, digits, spaces and the signs . : + - _, such as text-generation",
  "^[\\w./:-]+$": "be a model's name, such as owner/model",
  "^[\\w.-]*$": "be letters, digits, dots, hyphens and underscores, such as rack-2",
  "^(?!.*(?:^|/)\\.\\.(?:/|$))[A-Za-z0-9][\\w.-]{0,95}/[\\w.-]{1,96}$": "be a repository, such as owner/model",
  "^(?!.*(?:^|/)\\.\\.(?:/|$))[\\w./-]{1,128}$": "be a branch, tag or commit, such as main",
  "^$|^(?!.*(?:^|/)\\.{0,2}(?:/|$))[\\w.][\\w. +@/=,()-]{0,511}$":
    "be a file's path inside the repository, such as onnx/model.onnx, or nothing",
  "^\\d{1,9}$": "be a whole number of at most 9 digits, such as 86400",
  "^\\d{1,18}$": "be a whole number of at most 18 digits, such as 4711",
  "^[1-9]\\d{1,3}x[1-9]\\d{1,3}$": "be width and height in pixels with an x between them, such as 512x512",
  "^[A-Za-z]{2}$": "be a language of two letters (ISO 639-1), such as en",
  "^[dD][aA][tT][aA]:": "be a data: URI with the media itself, such as data:image/png;base64,iVBOR",
  "^[1-9]\\d?:[1-9]\\d?$": "be a ratio of two numbers up to 99, such as 16:9",
};

/** Returns undefined for a pattern without words. */
export const wordsOf = (pattern: string): string | undefined => wordsByPattern[pattern];
