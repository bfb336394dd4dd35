/** A value that logs, dumps and messages never show. */
export class Secret {
  readonly #value: string;
  constructor(value: string) {
    this.#value = value;
  }
  reveal(): string {
    return this.#value;
  }
  toJSON(): string {
    return "[secret]";
  }
  toString(): string {
    return "[secret]";
  }
}
