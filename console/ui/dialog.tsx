import { Button, type ButtonProps } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { type Right, useBarred } from "../app/visitor.ts";
import { Modal } from "./modal.tsx";

export interface DialogProps extends Pick<ButtonProps, "variant" | "size" | "leftSection" | "disabled" | "color"> {
  /** Label of the button that opens it. */
  readonly label: string;
  readonly title?: string;
  readonly width?: string;
  /** Changes nothing, so an operator who views the account may open it too. */
  readonly isReading?: boolean;
  /** Default: the right of the page. */
  readonly needs?: Right;
  /** `close` closes it. */
  readonly children: (close: () => void) => ReactNode;
}

/** Button that opens a form or details above the page. */
export function Dialog({
  label,
  title = label,
  width = "lg",
  isReading,
  needs,
  children,
  ...button
}: DialogProps): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const barred = useBarred(needs);
  const isBarred = barred !== undefined && !isReading;
  const close = () => setOpen(false);
  return (
    <>
      <Button
        size="xs"
        variant="default"
        {...button}
        disabled={button.disabled || isBarred}
        onClick={() => setOpen(true)}
      >
        {label}
      </Button>
      <Modal opened={isOpen} onClose={close} title={title} size={width}>
        {isOpen && children(close)}
      </Modal>
    </>
  );
}
