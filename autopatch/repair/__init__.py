"""The pure part of code repair: no input or output, no clock, no chance without a seed."""
