"""systemd units as they are installed, with ``@PROGRAM@``, ``@USER@`` and ``@CONFIG@`` in them."""
