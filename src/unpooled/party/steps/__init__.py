"""Running a declared step on a silo's rows."""
