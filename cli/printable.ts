/** C0 and C1 control characters except tab, newline and the carriage return of a CSV line, and DEL. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression matches control characters.
const controls = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]|\r(?!\n)/g;

/**
 * Replaces control characters: names, reasons and log lines come from customers and hosts, and escape sequences in them could
 * rewrite the screen or the clipboard.
 */
export const printable = (text: string): string => text.replace(controls, "\ufffd");
