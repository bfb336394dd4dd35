import { Button, type ButtonProps } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useIsReadOnly } from "../app/visitor.ts";
import { Modal } from "./modal.tsx";

export interface DialogProps extends Pick<ButtonProps, "variant" | "size" | "leftSection" | "disabled" | "color"> {
  /** Of the button that opens it. */
  readonly label: string;
  readonly title?: string;
  readonly width?: string;
  /** Changes nothing, so an operator who views the account may open it too. */
  readonly isReading?: boolean;
  /** `close` closes it. */
  readonly children: (close: () => void) => ReactNode;
}

/** Button that opens a form or details above the page. */
export function Dialog({ label, title = label, width = "lg", isReading, children, ...button }: DialogProps): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const isBarred = useIsReadOnly() && !isReading;
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
